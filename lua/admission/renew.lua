-- Extends a task's lease, counted from now; within the grace it revives it.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] token string: the last fencing token
-- keys[3] task string: the task's record
-- keys[4] leases zset: the pool's leases by the end of their slot
-- argv[1] member device and task, joined by \31
-- argv[2] token the lease's fencing token, empty when not compared
-- argv[3] asked_ms ms, 100..86400000, empty for the pool's
-- argv[4] capacity default, 0..1000000
-- argv[5] lease_ms default, ms, 100..86400000
-- argv[6] grace_ms default, ms, 0..2592000000
-- argv[7] paused default, 0 or 1
-- argv[8] retention_ms ms, 60000..2592000000
--
-- Returns {0 renewed, token, grant, expire}
--         {1 expired}
--         {2 completed}
--         {3 stale token}
--         {4 unknown}
-- Writes token, task, leases; TTL: the pool's last slot end and retention
-- Cost O(log leases)
local function decide(keys, argv, now)
  local settings_key, token_key, task_key, leases_key = keys[1], keys[2], keys[3], keys[4]
  local member, token, asked_ms = argv[1], tonumber(argv[2]), tonumber(argv[3])
  local retention_ms = tonumber(argv[8])

  local stored = read(settings_key, token_key, task_key)
  local _, lease_ms, grace_ms = read_settings(
    stored[1], tonumber(argv[4]), tonumber(argv[5]), tonumber(argv[6]), tonumber(argv[7])
  )
  local last_token, horizon = read_token(stored[2])
  local task = read_task(stored[3], now)

  if not task then
    return { 4 }
  elseif token and token ~= task.token then
    return { 3 }
  elseif task.state == 'D' then
    return { 2 }
  elseif not holds_slot(leases_key, member, task, now) then
    return { 1 }
  end

  call('ZREM', leases_key, lease_member(member, task))
  task.expire = now + (asked_ms or lease_ms) * 1000
  task.slot_end = task.expire + grace_ms * 1000
  local written = { leases = leases_key, token = token_key, task = task_key }
  write_lease(written, member, task, math.max(last_token, task.token), horizon, retention_ms, now)
  return { 0, task.token, task.grant, task.expire }
end
