-- Records a task's result and frees its own slot.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] task string: the task's record
-- keys[3] leases zset: the pool's leases by the end of their slot
-- keys[4] queue zset: who waits, by ticket
-- keys[5] places hash: the calls that wait, and their servers
-- argv[1] member device and task, joined by \31
-- argv[2] token the lease's fencing token, empty when not compared
-- argv[3] outcome 1 succeeded, 2 failed
-- argv[4] result bytes, 0..65536
-- argv[5] capacity default, 0..1000000
-- argv[6] retention_ms ms, 60000..2592000000
--
-- Returns {0 completed, capacity, in_use}
--         {1 already completed, capacity, in_use}
--         {2 late, capacity, in_use}
--         {3 stale token, capacity, in_use}
--         {4 unknown, capacity, in_use}
-- Writes task, TTL: the retention; leases, queue and places (removes)
-- Cost O(log leases + log waiters); takes at most 500 lapsed places out of the way
local function decide(keys, argv, now)
  local settings_key, task_key, leases_key = keys[1], keys[2], keys[3]
  local queue_key, places_key = keys[4], keys[5]
  local member, token, outcome, result = argv[1], tonumber(argv[2]), argv[3], argv[4]
  local retention_ms = tonumber(argv[6])

  local stored = read(settings_key, task_key)
  local capacity = read_settings(stored[1], tonumber(argv[5]))
  local task = read_task(stored[2], now)
  local in_use = count_in_use(leases_key, now)

  if not task then
    return { 4, capacity, in_use }
  elseif token and token ~= task.token then
    return { 3, capacity, in_use }
  elseif task.state == 'D' then
    return { 1, capacity, in_use }
  end

  local was_in_use, running = in_use, task.state == 'L' and now < task.expire
  if task.state == 'L' then
    local removed = call('ZREM', leases_key, lease_member(member, task))
    if now < task.slot_end then
      in_use = in_use - removed
    end
  end
  write_task(task_key, 'D', task, now + retention_ms * 1000, now, ' ' .. outcome .. ' ' .. result)
  hand_on(queue_key, places_key, capacity - was_in_use, capacity - in_use, now)
  return { running and 0 or 2, capacity, in_use }
end
