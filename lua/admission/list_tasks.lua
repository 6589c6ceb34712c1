-- Reads a page of the tasks that are queued, or of those that left the queue.
--
-- keys[1] queued hash: tasks that were queued
-- keys[2] backlog zset: those that are queued, by device and age
-- keys[3] due zset: when queued ones expire and others are forgotten
-- argv[1] left 0 for those that are queued, 1 for those that left the queue, the first to
--         be forgotten first
-- argv[2] limit tasks, 1..1000
-- argv[3] after_due the page before's last entry: when it is due, µs, or empty
-- argv[4] after_entry and what it is: of the backlog or of due, or empty
--
-- Returns {0, more 0 or 1, due of the last entry or 0, last entry or empty,
--          (member, standing and state, running 0 or 1, attempt, queued, ends, token) …}
-- Writes nothing
-- Cost O(log queued + limit), and the payloads of the page are read
local function queued_entries(backlog_key, limit, after)
  local from = after == '' and '-' or '(' .. after
  local lines, members = call('ZRANGEBYLEX', backlog_key, from, '+', 'LIMIT', 0, limit + 1), {}
  for i, line in ipairs(lines) do
    members[i] = string.gsub(line, '\31%d+\31', '\31', 1)
  end
  return lines, members, {}
end

local function left_entries(due_key, limit, after_due, after)
  local start = 0
  if after_due ~= '' then
    -- Where the entry itself is gone, go on from the first that is due with it.
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
  local reply = { 0, more, dues[last] or 0, entries[last] or '' }
  for i = 1, last do
    local task = read_queued(pool, members[i], now)
    -- Queued ones that have a time are due, too.
    if task and not (left and task.standing == 'Q') then
      local at = #reply
      reply[at + 1], reply[at + 2] = members[i], task.standing .. task.state
      reply[at + 3] = task.state == 'L' and now < task.slot_end and 1 or 0
      reply[at + 4], reply[at + 5], reply[at + 6], reply[at + 7] = task.attempt, task.queued, task.ends, task.token
    end
  end
  return reply
end
