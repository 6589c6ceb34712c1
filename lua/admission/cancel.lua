-- Removes a task from its device's queue.
--
-- @include events expiry leases pool_event queued strings task
--
-- keys[1] task string: task record.
-- keys[2] leases zset: leases by slot end.
-- keys[3] events list: history of the pool.
-- keys[4] queued hash: records of queued tasks.
-- keys[5] backlog zset: queued tasks by device and age.
-- keys[6] due zset: queued tasks by when the sweeper must handle them.
-- argv[1] member device and task, joined by \31.
-- argv[2] retention_ms ms, 60000..2592000000.
-- argv[3] history events kept at least, 100..1000000.
--
-- Returns {0 cancelled, replayed 0 or 1}.
--         {1 cancelled, but its lease still holds a slot, replayed 0 or 1}.
--         {2 completed, 0}.
--         {3 unknown or never queued, 0}.
-- Writes queued, backlog and due, permanent; events, TTL: 24 h.
-- Cost O(log queued): 35 µs.
local CANCEL_CANCELLED, CANCEL_RUNNING, CANCEL_COMPLETED, CANCEL_UNKNOWN = 0, 1, 2, 3

local function decide(keys, argv, now)
  local task_key, member = keys[1], argv[1]
  local pool = { leases = keys[2], events = keys[3], queued = keys[4], backlog = keys[5], due = keys[6] }
  pool.retention, pool.history = argv[2] * 1000, tonumber(argv[3])

  local task = queued_find_task(strings_read(task_key)[1], pool, member, now)
  if task and task.state == TASK_DONE then
    return { CANCEL_COMPLETED, 0 }
  elseif not task or not task.standing then
    return { CANCEL_UNKNOWN, 0 }
  end
  local verdict = leases_holds_slot(pool, member, task, now) and CANCEL_RUNNING or CANCEL_CANCELLED
  if task.standing == QUEUED_CANCELLED then
    return { verdict, 1 }
  end
  local event = pool_event(POOL_EVENT_CANCELLED, task.token, task.attempt, member, now)
  events_append(pool.events, pool.history, now, event)
  expiry_leave_queue(pool, member, task, QUEUED_CANCELLED, now)
  return { verdict, 0 }
end
