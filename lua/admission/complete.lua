-- Records a task's result and frees its own slot.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] task string: the task's record
-- keys[3] leases zset: the pool's leases by the end of their slot
-- keys[4] queue zset: who waits, by ticket
-- keys[5] places hash: the calls that wait, and their servers
-- keys[6] events list: the pool's history
-- keys[7] queued hash: tasks that were queued
-- keys[8] backlog zset: those that are queued, by device and age
-- keys[9] due zset: when queued ones expire and others are forgotten
-- argv[1] member device and task, joined by \31
-- argv[2] token the lease's fencing token, empty when not compared
-- argv[3] outcome 1 succeeded, 2 failed
-- argv[4] result bytes, 0..65536
-- argv[5] capacity default, 0..1000000
-- argv[6] max_attempts default, 1..1000
-- argv[7] retention_ms ms, 60000..2592000000
-- argv[8] history events kept at least, 100..1000000
--
-- Returns {0 completed, capacity, in_use}
--         {1 already completed, capacity, in_use}
--         {2 late, capacity, in_use}
--         {3 stale token, capacity, in_use}
--         {4 unknown, capacity, in_use}
-- Writes task, TTL: the retention; leases, queue and places (removes); queued, backlog and
--        due, permanent; events, TTL: 24 h
-- Cost O(log leases + log waiters + log queued); takes at most 500 lapsed places out of the way
local function decide(keys, argv, now)
  local settings_key, task_key, leases_key = keys[1], keys[2], keys[3]
  local queue_key, places_key = keys[4], keys[5]
  local pool = { leases = leases_key, events = keys[6], queued = keys[7], backlog = keys[8], due = keys[9] }
  local member, token, outcome, result = argv[1], tonumber(argv[2]), argv[3], argv[4]

  local stored = read(settings_key, task_key)
  local capacity, _, _, _, max_attempts =
    read_settings(stored[1], tonumber(argv[5]), nil, nil, nil, tonumber(argv[6]))
  pool.max_attempts, pool.retention, pool.history = max_attempts, argv[7] * 1000, tonumber(argv[8])
  local task = find_task(stored[2], pool, member, now)
  local in_use = count_in_use(leases_key, now)

  if not task or task.state == 'N' then
    return { 4, capacity, in_use }
  elseif token and token ~= task.token then
    return { 3, capacity, in_use }
  elseif task.state == 'D' or task.state == 'F' then
    return { 1, capacity, in_use }
  end

  local was_in_use, running = in_use, task.state == 'L' and now < task.expire
  if is_lapsed(pool, member, task, now) then
    expire(pool, member, task, now)
  end
  local events, standing = {}, nil
  events[1] = event(running and COMPLETED or LATE, task.token, task.attempt, member, now, outcome)
  local again = task.standing and outcome == '2'
  if again then
    standing, events[2] = fate(pool, member, task, now)
  end
  log_events(pool.events, pool.history, now, unpack(events))
  if task.state == 'L' and call('ZREM', leases_key, lease_member(member, task)) == 1 then
    in_use = in_use - 1
  end
  if again then
    task.state = 'F'
    end_attempt(pool, member, task, standing, now)
  else
    if task.standing then
      drop_queued(pool, member, task)
    end
    write_task(task_key, 'D', task, now + pool.retention, now, ' ' .. outcome .. ' ' .. result)
  end
  hand_on(queue_key, places_key, capacity - was_in_use, capacity - in_use, now)
  return { running and 0 or 2, capacity, in_use }
end
