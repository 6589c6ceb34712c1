-- Revokes a lease that replicas did not acknowledge, or whose caller had disconnected before the
-- answer was written, unless it is disclosed (lib/grant.lua).
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
-- argv[2] token the lease's fencing token.
-- argv[3] capacity default, 0..1000000.
-- argv[4] max_attempts default, 1..1000.
-- argv[5] retention_ms ms, 60000..2592000000.
-- argv[6] history events kept at least, 100..1000000.
-- argv[7] reason text that is stored with the task.
--
-- Returns {0 revoked: the lease holds no slot}.
--         {1 it stays: it is disclosed, or its task has a result}.
-- Writes task, TTL: the retention; leases, queue and places (removes); queued, backlog and
--        due, permanent; events, TTL: 24 h.
-- Cost O(log leases + log waiters + log queued): 40 µs. Removes at most 500 lapsed waiters: 2.4 ms.
local REVOKE_REVOKED, REVOKE_STAYS = 0, 1

-- Undoes the count of a queued task's attempt, since no caller received it. Returns standing and
-- event if the task leaves the queue because its deadline has passed.
local function give_back(pool, member, task, now)
  task.attempt = task.attempt - 1
  if task.attempt == 0 then
    task.state, task.token, task.grant, task.expire, task.slot_end = TASK_NEW, 0, 0, 0, 0
  else
    task.state = TASK_EVICTED
  end
  return expiry_standing(pool, member, task, now)
end

local function decide(keys, argv, now)
  local task_key, settings_key, queue_key, places_key = keys[1], keys[3], keys[4], keys[5]
  local pool = { leases = keys[2], events = keys[6], queued = keys[7], backlog = keys[8], due = keys[9] }
  local member, token, default, attempts = argv[1], tonumber(argv[2]), tonumber(argv[3]), tonumber(argv[4])
  pool.retention, pool.history = argv[5] * 1000, tonumber(argv[6])
  local reason = argv[7]

  local task = queued_find_task(strings_read(task_key)[1], pool, member, now)
  if not task or task.token ~= token then
    return { REVOKE_REVOKED }
  elseif task.is_disclosed or task.state == TASK_DONE or task.state == TASK_FAILED then
    return { REVOKE_STAYS }
  elseif not leases_holds_slot(pool, member, task, now) then
    return { REVOKE_REVOKED }
  end

  local capacity, _, _, _, max_attempts =
    settings_read(strings_read(settings_key)[1], default, nil, nil, nil, attempts)
  pool.max_attempts = max_attempts
  local lease, standing = leases_encode(member, task), nil
  local events = { pool_event(POOL_EVENT_EVICTED, token, task.attempt, member, now) }
  if task.standing then
    standing, events[2] = give_back(pool, member, task, now)
  end
  events_append(pool.events, pool.history, now, unpack(events))
  call('ZREM', pool.leases, lease)
  if task.standing then
    expiry_end_attempt(pool, member, task, standing, now)
  else
    task_write(task_key, TASK_EVICTED, task, now + pool.retention, now, reason)
  end
  local free = capacity - leases_count(pool.leases, now)
  wake_ups_hand_on(queue_key, places_key, free - 1, free, now)
  return { REVOKE_REVOKED }
end
