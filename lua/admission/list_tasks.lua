-- Reads a page of the queued tasks, or of the tasks that left the queue.
--
-- @include queued task
--
-- keys[1] queued hash: records of queued tasks.
-- keys[2] backlog zset: queued tasks by device and age.
-- keys[3] due zset: queued tasks by when the sweeper must handle them.
-- argv[1] left 0 for queued tasks; 1 for tasks that left the queue, the first to be forgotten first.
-- argv[2] limit entries read, 1..1000.
-- argv[3] after_due score in due of the previous page's last entry, µs, or empty.
-- argv[4] after_entry that entry of backlog or due, or empty.
--
-- Returns {0, more 0 or 1, score in due of the last entry or 0, last entry or empty,
--          (member, packed: standing, state, running u8 (0 or 1), attempt u32, queued, ends,
--          token u64) …}.
-- Writes nothing.
-- Cost O(log queued + limit): 8 µs a task. Reads no payload above 512 bytes.
local function queued_entries(backlog_key, limit, after)
  local from = after == '' and '-' or '(' .. after
  local lines, members = call('ZRANGEBYLEX', backlog_key, from, '+', 'LIMIT', 0, limit + 1), {}
  for i, line in ipairs(lines) do
    local at = string.find(line, '\31', 1, true)
    members[i] = sub(line, 1, at) .. sub(line, at + 18)
  end
  return lines, members, {}
end

local function left_entries(due_key, limit, after_due, after)
  local start = 0
  if after_due ~= '' then
    -- If that entry has been removed, continue at the first one with its score.
    local is_there = tonumber(call('ZSCORE', due_key, after) or '') == tonumber(after_due)
    start = is_there and call('ZRANK', due_key, after) + 1 or call('ZCOUNT', due_key, '-inf', '(' .. after_due)
  end
  local page, members, dues = call('ZRANGE', due_key, start, start + limit, 'WITHSCORES'), {}, {}
  for i = 1, #page, 2 do
    members[#members + 1], dues[#dues + 1] = page[i], tonumber(page[i + 1])
  end
  return members, members, dues
end

local function decide(keys, argv, now)
  local backlog_key, due_key = keys[2], keys[3]
  local pool = { queued = keys[1], backlog = backlog_key, due = due_key }
  local left, limit, after_due, after = argv[1] == '1', tonumber(argv[2]), argv[3], argv[4]

  local entries, members, dues
  if left then
    entries, members, dues = left_entries(due_key, limit, after_due, after)
  else
    entries, members, dues = queued_entries(backlog_key, limit, after)
  end
  local more, last = entries[limit + 1] and 1 or 0, math.min(#entries, limit)
  local reply = { OK, more, dues[last] or 0, entries[last] or '' }
  local texts = {}
  if last > 0 then
    call('ZCARD', pool.backlog) -- fails if it has another type
    call('ZCARD', pool.due)
    texts = call('HMGET', pool.queued, unpack(members, 1, last))
  end
  for i = 1, last do
    local task = texts[i] and queued_decode(texts[i], now)
    -- Queued tasks with a deadline are in due as well.
    if task and not (left and task.standing == QUEUED_WAITING) then
      local at, running = #reply, task.state == TASK_LEASED and now < task.slot_end and 1 or 0
      reply[at + 1] = members[i]
      reply[at + 2] = task.standing .. task.state
        .. pack('<BI4I8I8I8', running, task.attempt, task.queued, task.ends, task.token)
    end
  end
  return reply
end
