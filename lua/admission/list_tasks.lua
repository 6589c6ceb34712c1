-- Reads a page of the queued tasks, or of the tasks that left the queue.
--
-- @include queued task
--
-- keys[1] queued hash: records of queued tasks.
-- keys[2] backlog zset: queued tasks by device and age.
-- keys[3] due zset: queued tasks by when the sweeper must handle them.
-- argv[1] left 0 for queued tasks; 1 for tasks that left the queue, the first to be forgotten first.
-- argv[2] limit entries to read, 1..1000.
-- argv[3] after_due score in due of the previous page's last entry, µs, or empty.
-- argv[4] after_member device and task of that entry, or empty.
-- argv[5] after_queued when that task was queued, µs; 0 for tasks that left the queue.
--
-- Returns {0, more 0 or 1, score in due of the last entry or 0, its member or empty, when it was
--          queued or 0, (member, state, last_end, attempt, queued, ends, token) …}.
-- Writes nothing.
-- Cost O(log queued + limit): 8 µs a task. Reads no payload above 512 bytes.
local LISTED_CANCELLED, LISTED_DEAD, LISTED_EXPIRED, LISTED_QUEUED, LISTED_RUNNING = 0, 1, 2, 3, 4
local LAST_END_NONE, LAST_END_EVICTED, LAST_END_EXPIRED, LAST_END_FAILED = 0, 1, 2, 3
local STATES = {
  [QUEUED_WAITING] = LISTED_QUEUED, [QUEUED_DEAD] = LISTED_DEAD, [QUEUED_CANCELLED] = LISTED_CANCELLED,
  [QUEUED_EXPIRED] = LISTED_EXPIRED,
}
local LAST_ENDS = {
  [TASK_LEASED] = LAST_END_EXPIRED, [TASK_FAILED] = LAST_END_FAILED, [TASK_EVICTED] = LAST_END_EVICTED,
}

local function queued_entries(backlog_key, limit, after, after_queued)
  local from = after == '' and '-' or '(' .. queued_line(after, { queued = after_queued })
  local lines, members, times = call('ZRANGEBYLEX', backlog_key, from, '+', 'LIMIT', 0, limit + 1), {}, {}
  for i, line in ipairs(lines) do
    local at = string.find(line, '\31', 1, true)
    members[i], times[i] = sub(line, 1, at) .. sub(line, at + 18), tonumber(sub(line, at + 1, at + 16))
  end
  return members, {}, times
end

local function left_entries(due_key, limit, after_due, after)
  local start = 0
  if after_due ~= '' then
    -- If that entry has been removed, continue at the first entry with the same score.
    local is_there = tonumber(call('ZSCORE', due_key, after) or '') == tonumber(after_due)
    start = is_there and call('ZRANK', due_key, after) + 1 or call('ZCOUNT', due_key, '-inf', '(' .. after_due)
  end
  local page, members, dues = call('ZRANGE', due_key, start, start + limit, 'WITHSCORES'), {}, {}
  for i = 1, #page, 2 do
    members[#members + 1], dues[#dues + 1] = page[i], tonumber(page[i + 1])
  end
  return members, dues, {}
end

local function decide(keys, argv, now)
  local backlog_key, due_key = keys[2], keys[3]
  local pool = { queued = keys[1], backlog = backlog_key, due = due_key }
  local left, limit, after_due, after = argv[1] == '1', tonumber(argv[2]), argv[3], argv[4]

  local members, dues, times
  if left then
    members, dues, times = left_entries(due_key, limit, after_due, after)
  else
    members, dues, times = queued_entries(backlog_key, limit, after, tonumber(argv[5]))
  end
  local more, last = members[limit + 1] and 1 or 0, math.min(#members, limit)
  local reply = { OK, more, dues[last] or 0, members[last] or '', times[last] or 0 }
  local texts = {}
  if last > 0 then
    call('ZCARD', pool.backlog) -- fails if it has another type
    call('ZCARD', pool.due)
    texts = call('HMGET', pool.queued, unpack(members, 1, last))
  end
  for i = 1, last do
    if #members[i] > 1024 then
      error('CORRUPT entry of a queued task; DEL of the keys of the pool that end in :backlog and :due removes it', 0)
    end
    local task = texts[i] and queued_decode(texts[i], now)
    -- Queued tasks with a deadline are in due as well.
    if task and not (left and task.standing == QUEUED_WAITING) then
      local holds_slot = task.state == TASK_LEASED and now < task.slot_end
      local is_running = holds_slot and task.standing == QUEUED_WAITING
      local at = #reply
      reply[at + 1], reply[at + 2] = members[i], is_running and LISTED_RUNNING or STATES[task.standing]
      reply[at + 3] = holds_slot and LAST_END_NONE or LAST_ENDS[task.state] or LAST_END_NONE
      reply[at + 4], reply[at + 5], reply[at + 6], reply[at + 7] = task.attempt, task.queued, task.ends, task.token
    end
  end
  return reply
end
