-- Frees a task's slot on behalf of an operator; drops a task record that cannot be read.
--
-- @include events expiry leases pool_event queued settings strings task wake_ups
--
-- keys[1] task string: task record.
-- keys[2] leases zset: leases by slot end.
-- keys[3] settings string: run-time settings.
-- keys[4] queue zset: waiters by ticket.
-- keys[5] places hash: calls of the waiters, and their servers.
-- keys[6] events list: history of the pool.
-- keys[7] queued hash: records of queued tasks.
-- keys[8] backlog zset: queued tasks by device and age.
-- keys[9] due zset: queued tasks by when the sweeper must handle them.
-- argv[1] member device and task, joined by \31.
-- argv[2] reason text, 0..256 bytes.
-- argv[3] capacity default, 0..1000000.
-- argv[4] max_attempts default, 1..1000.
-- argv[5] retention_ms ms, 60000..2592000000.
-- argv[6] history events kept at least, 100..1000000.
--
-- Returns {0 evicted}.
--         {1 replayed: evicted before}.
--         {2 ended: it holds no slot}.
--         {3 unknown, or its record was unreadable}.
-- Writes task, TTL: the retention; leases, queue and places (removes); queued, backlog and
--        due, permanent; events, TTL: 24 h.
-- Cost O(log leases + log waiters + log queued): 40 µs. Removes at most 500 lapsed waiters: 2.4 ms.
local EVICT_EVICTED, EVICT_REPLAYED, EVICT_ENDED, EVICT_UNKNOWN = 0, 1, 2, 3

local function decide(keys, argv, now)
  local task_key, settings_key, queue_key, places_key = keys[1], keys[3], keys[4], keys[5]
  local pool = { leases = keys[2], events = keys[6], queued = keys[7], backlog = keys[8], due = keys[9] }
  local member, reason, default, attempts = argv[1], argv[2], tonumber(argv[3]), tonumber(argv[4])
  pool.retention, pool.history = argv[5] * 1000, tonumber(argv[6])

  local readable, task = pcall(function()
    return queued_find_task(strings_read(task_key)[1], pool, member, now)
  end)
  if not readable then
    -- Without a record the task's lease is unknown; its slot is freed at the slot end.
    call('DEL', task_key)
    pcall(call, 'HDEL', pool.queued, member, '\31' .. member)
    return { EVICT_UNKNOWN }
  elseif not task or task.state == TASK_NEW then
    return { EVICT_UNKNOWN }
  elseif task.state == TASK_EVICTED then
    return { EVICT_REPLAYED }
  elseif not leases_holds_slot(pool, member, task, now) then
    return { EVICT_ENDED }
  end

  -- Unreadable settings must not prevent an eviction.
  local known, capacity, _, _, _, max_attempts = pcall(function()
    return settings_read(strings_read(settings_key)[1], default, nil, nil, nil, attempts)
  end)
  pool.max_attempts = known and max_attempts or attempts
  local events, standing = { pool_event(POOL_EVENT_EVICTED, task.token, task.attempt, member, now) }, nil
  if task.standing then
    standing, events[2] = expiry_standing(pool, member, task, now)
  end
  events_append(pool.events, pool.history, now, unpack(events))
  call('ZREM', pool.leases, leases_encode(member, task))
  if task.standing then
    task.state = TASK_EVICTED
    expiry_end_attempt(pool, member, task, standing, now)
  else
    task_write(task_key, TASK_EVICTED, task, now + pool.retention, now, reason)
  end
  if known then
    local free = capacity - leases_count(pool.leases, now)
    wake_ups_hand_on(queue_key, places_key, free - 1, free, now)
  end
  return { EVICT_EVICTED }
end
