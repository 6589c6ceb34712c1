-- Queues a dead task again, behind all tasks of its device. Its count of attempts starts again.
--
-- @include events expiry pool_event queued settings strings task
--
-- keys[1] task string: task record.
-- keys[2] leases zset: leases by slot end.
-- keys[3] settings string: run-time settings.
-- keys[4] events list: history of the pool.
-- keys[5] queued hash: records of queued tasks.
-- keys[6] backlog zset: queued tasks by device and age.
-- keys[7] due zset: queued tasks by when the sweeper must handle them.
-- argv[1] member device and task, joined by \31.
-- argv[2] max_attempts default, 1..1000.
-- argv[3] queued_max tasks of the pool, 0..10000000.
-- argv[4] retention_ms ms, 60000..2592000000.
-- argv[5] history events kept at least, 100..1000000.
--
-- Returns {0 requeued}.
--         {1 already queued}.
--         {2 not dead: it has a result, or was cancelled}.
--         {3 expired: its deadline has passed}.
--         {4 full: queued_max tasks are queued}.
--         {5 unknown or never queued}.
-- Writes queued, backlog and due, permanent; leases (removes); events, TTL: 24 h.
-- Cost O(log leases + log queued): 50 µs.
local REQUEUE_REQUEUED, REQUEUE_ALREADY_QUEUED, REQUEUE_NOT_DEAD = 0, 1, 2
local REQUEUE_EXPIRED, REQUEUE_FULL, REQUEUE_UNKNOWN = 3, 4, 5

-- Does what the sweeper has not done yet, so that the answer does not depend on it: ends the expired
-- lease of a queued task, or removes the task from the queue if it gets no further attempt.
local function settle(pool, member, task, now)
  if expiry_is_lapsed(pool, member, task, now) then
    expiry_end_lease(pool, member, task, now)
  else
    expiry_leave_if_over(pool, member, task, now)
  end
end

local function requeue(pool, member, task, now)
  task.standing, task.attempt, task.forget = QUEUED_WAITING, 0, 0
  task.queued = queued_next(pool.backlog, match(member, '^[^\31]*'), now)
  events_append(pool.events, pool.history, now, pool_event(POOL_EVENT_ENQUEUED, task.token, 0, member, now))
  queued_write(pool.queued, member, task)
  call('ZADD', pool.backlog, 0, queued_line(member, task))
  if task.ends > 0 then
    call('ZADD', pool.due, format('%.0f', task.ends), member)
  else
    call('ZREM', pool.due, member)
  end
end

local function decide(keys, argv, now)
  local task_key, settings_key, member, queued_max = keys[1], keys[3], argv[1], tonumber(argv[3])
  local pool = { leases = keys[2], events = keys[4], queued = keys[5], backlog = keys[6], due = keys[7] }
  pool.retention, pool.history = argv[4] * 1000, tonumber(argv[5])

  local record, settings = unpack(strings_read(task_key, settings_key))
  local task = queued_find_task(record, pool, member, now)
  if task and task.state == TASK_DONE then
    return { REQUEUE_NOT_DEAD }
  elseif not task or not task.standing then
    return { REQUEUE_UNKNOWN }
  elseif task.standing == QUEUED_WAITING then
    local _, _, _, _, max_attempts = settings_read(settings, nil, nil, nil, nil, tonumber(argv[2]))
    pool.max_attempts = max_attempts
    settle(pool, member, task, now)
  end
  if task.standing == QUEUED_WAITING then
    return { REQUEUE_ALREADY_QUEUED }
  elseif task.standing == QUEUED_CANCELLED then
    return { REQUEUE_NOT_DEAD }
  elseif task.standing == QUEUED_EXPIRED or task.ends > 0 and task.ends <= now then
    return { REQUEUE_EXPIRED }
  elseif call('ZCARD', pool.backlog) >= queued_max then
    return { REQUEUE_FULL }
  end
  requeue(pool, member, task, now)
  return { REQUEUE_REQUEUED }
end
