-- Extends a task's lease, counted from now; within the grace it revives it, and while the
-- pool is held after a failover it registers again what was lost of it.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] token string: the last fencing token
-- keys[3] leases zset: the pool's leases by the end of their slot
-- keys[4] events list: the pool's history
-- keys[5] queued hash: tasks that were queued
-- keys[6] backlog zset: those that are queued, by device and age
-- keys[7] due zset: when queued ones expire and others are forgotten
-- keys[8] queue zset: who waits, by ticket
-- keys[9] places hash: the calls that wait, and their servers
-- keys[10] task_key string: the task's record
-- argv[1] capacity default, 0..1000000
-- argv[2] lease_ms default, ms, 100..86400000
-- argv[3] grace_ms default, ms, 0..2592000000
-- argv[4] paused default, 0 or 1
-- argv[5] max_attempts default, 1..1000
-- argv[6] retention_ms ms, 60000..2592000000
-- argv[7] history events kept at least, 100..1000000
-- argv[8] seen "leader ms changed" (lib/failover.lua), empty where no failover holds the pool
-- argv[9] member device and task, joined by \31
-- argv[10] token the lease's fencing token, empty when not compared
-- argv[11] asked_ms ms, 100..86400000, empty for the pool's
-- Shared keys[1..9], argv[1..8]
--
-- Returns {0 renewed, token, grant, expire}
--         {1 expired}
--         {2 completed}
--         {3 stale token}
--         {4 unknown}
-- Writes token, task, leases; TTL: the pool's last slot end and retention; queued and due,
--        permanent; events, TTL: 24 h
-- Cost O(log leases): 10 µs
local function share(keys, argv, now, first, last)
  local pool = open_pool(keys, argv, now, first, last)
  heed_failover(pool, argv[8], now)
  return pool
end

local write, RENEWED_REPLY = write_pool, '<I8I8I8I8'

-- The answer that nothing is renewed, if there is one.
local function refused(pool, task, member, token, now)
  if not task or task.state == 'N' then
    return 4
  elseif token ~= '' and tonumber(token) ~= task.token then
    return 3
  elseif task.state == 'D' or task.state == 'F' then
    return 2
  elseif not holds_slot(pool, member, task, now) then
    return 1
  end
end

local function decide(pool, now, task_key, member, token, asked_ms)
  local task = known_task(pool, task_key, member, now)
  local expire = now + (tonumber(asked_ms) or pool.lease_ms) * 1000
  if was_lost(pool, task, member, token, now) then
    task = register_again(pool, task_key, task, member, tonumber(token), expire, now)
    return pack(RENEWED_REPLY, 0, task.token, task.grant, task.expire)
  end
  local refusal = refused(pool, task, member, token, now)
  if refusal then
    return pack('<I8', refusal)
  end
  pool.news[#pool.news + 1] = event(RENEWED, task.token, task.attempt, member, now)
  list_lease(pool, lease_member(member, task), false)
  task.is_told, task.lease, task.expire = true, nil, expire
  task.slot_end = task.expire + pool.grace_ms * 1000
  put_lease(pool, task_key, member, task, max(pool.last_token, task.token), now)
  return pack(RENEWED_REPLY, 0, task.token, task.grant, task.expire)
end
