-- Extends a task's lease, counted from now; within the grace it revives it.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] token string: the last fencing token
-- keys[3] task string: the task's record
-- keys[4] leases zset: the pool's leases by the end of their slot
-- keys[5] events list: the pool's history
-- keys[6] queued hash: tasks that were queued
-- keys[7] backlog zset: those that are queued, by device and age
-- keys[8] due zset: when queued ones expire and others are forgotten
-- argv[1] member device and task, joined by \31
-- argv[2] token the lease's fencing token, empty when not compared
-- argv[3] asked_ms ms, 100..86400000, empty for the pool's
-- argv[4] lease_ms default, ms, 100..86400000
-- argv[5] grace_ms default, ms, 0..2592000000
-- argv[6] retention_ms ms, 60000..2592000000
-- argv[7] history events kept at least, 100..1000000
--
-- Returns {0 renewed, token, grant, expire}
--         {1 expired}
--         {2 completed}
--         {3 stale token}
--         {4 unknown}
-- Writes token, task, leases; TTL: the pool's last slot end and retention; queued and due,
--        permanent; events, TTL: 24 h
-- Cost O(log leases)
local function decide(keys, argv, now)
  local settings_key, token_key, task_key = keys[1], keys[2], keys[3]
  local pool = { leases = keys[4], events = keys[5], queued = keys[6], backlog = keys[7], due = keys[8] }
  local member, token, asked_ms = argv[1], tonumber(argv[2]), tonumber(argv[3])

  local stored = read(settings_key, token_key, task_key)
  local _, lease_ms, grace_ms = read_settings(stored[1], nil, tonumber(argv[4]), tonumber(argv[5]))
  pool.retention, pool.history = argv[6] * 1000, tonumber(argv[7])
  local last_token, horizon = read_token(stored[2])
  local task = find_task(stored[3], pool, member, now)

  if not task or task.state == 'N' then
    return { 4 }
  elseif token and token ~= task.token then
    return { 3 }
  elseif task.state == 'D' or task.state == 'F' then
    return { 2 }
  elseif not holds_slot(pool.leases, member, task, now) then
    return { 1 }
  end

  log_events(pool.events, pool.history, now, event(RENEWED, task.token, task.attempt, member, now))
  call('ZREM', pool.leases, lease_member(member, task))
  task.expire = now + (asked_ms or lease_ms) * 1000
  task.slot_end = task.expire + grace_ms * 1000
  write_lease(pool, token_key, task_key, member, task, math.max(last_token, task.token), horizon, now)
  return { 0, task.token, task.grant, task.expire }
end
