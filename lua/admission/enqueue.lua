-- Queues a task for a device.
--
-- @include events pool_event queued strings task
--
-- keys[1] task string: task record.
-- keys[2] events list: history of the pool.
-- keys[3] queued hash: records of queued tasks.
-- keys[4] backlog zset: queued tasks by device and age.
-- keys[5] due zset: queued tasks by when the sweeper must handle them.
-- argv[1] device 1..256 bytes.
-- argv[2] task 1..256 bytes.
-- argv[3] payload 0..65536 bytes.
-- argv[4] ends deadline of its dispatch, µs, 0 for none.
-- argv[5] queued_max tasks of the pool, 0..10000000.
-- argv[6] history events kept at least, 100..1000000.
--
-- Returns {0 enqueued}.
--         {1 duplicate: the task has a record}.
--         {2 expired: the deadline has passed}.
--         {3 full: queued_max tasks are queued}.
-- Writes queued, backlog and due, permanent; events, TTL: 24 h.
-- Cost O(log queued): 50 µs, and 2 µs for each KiB of the payload.
local ENQUEUE_ENQUEUED, ENQUEUE_DUPLICATE, ENQUEUE_EXPIRED, ENQUEUE_FULL = 0, 1, 2, 3

local function decide(keys, argv, now)
  local task_key, events_key, backlog_key, due_key = keys[1], keys[2], keys[4], keys[5]
  local pool = { queued = keys[3], backlog = backlog_key, due = due_key }
  local device, name, payload = argv[1], argv[2], argv[3]
  local ends, queued_max, history = tonumber(argv[4]), tonumber(argv[5]), tonumber(argv[6])

  local member = device .. '\31' .. name
  if queued_find_task(strings_read(task_key)[1], pool, member, now) then
    return { ENQUEUE_DUPLICATE }
  elseif ends > 0 and ends <= now then
    return { ENQUEUE_EXPIRED }
  elseif call('ZCARD', backlog_key) >= queued_max then
    return { ENQUEUE_FULL }
  end
  call('ZCARD', due_key) -- fails if it has another type
  local task = {
    standing = QUEUED_WAITING, state = TASK_NEW, token = 0, grant = 0, expire = 0, slot_end = 0, attempt = 0,
    queued = queued_next(backlog_key, device, now), ends = ends, forget = 0, payload = payload,
  }
  events_append(events_key, history, now, pool_event(POOL_EVENT_ENQUEUED, 0, 0, member, now))
  queued_write(pool.queued, member, task)
  call('ZADD', backlog_key, 0, queued_line(member, task))
  -- A forgotten task of this name may still have an entry and a payload.
  if call('ZREM', due_key, member) == 1 and #payload <= QUEUED_INLINE_MAX then
    call('HDEL', pool.queued, '\31' .. member)
  end
  if ends > 0 then
    call('ZADD', due_key, format('%.0f', ends), member)
  end
  return { ENQUEUE_ENQUEUED }
end
