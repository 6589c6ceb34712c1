-- Extends a task's lease, counted from now, and revives an expired lease within its grace. During a
-- failover hold it re-registers a lost lease.
--
-- @include changes failover grant leases pool pool_event re_register task
--
-- keys[1] settings string: run-time settings.
-- keys[2] token string: token record (lib/token.lua).
-- keys[3] leases zset: leases by slot end.
-- keys[4] events list: history of the pool.
-- keys[5] queued hash: records of queued tasks.
-- keys[6] backlog zset: queued tasks by device and age.
-- keys[7] due zset: queued tasks by when the sweeper must handle them.
-- keys[8] queue zset: waiters by ticket.
-- keys[9] places hash: calls of the waiters, and their servers.
-- keys[10] task_key string: task record.
-- argv[1] capacity default, 0..1000000.
-- argv[2] lease_ms default, ms, 100..86400000.
-- argv[3] grace_ms default, ms, 0..2592000000.
-- argv[4] paused default, 0 or 1.
-- argv[5] max_attempts default, 1..1000.
-- argv[6] retention_ms ms, 60000..2592000000.
-- argv[7] history events kept at least, 100..1000000.
-- argv[8] seen "primary_id ms changed" (lib/failover.lua), empty for a pool without failover holds.
-- argv[9] member device and task, joined by \31.
-- argv[10] token the lease's fencing token, empty to accept any.
-- argv[11] asked_ms lease duration, ms, 100..86400000, empty for the pool's.
-- Shared keys[1..9], argv[1..8]
--
-- Returns {0 renewed, token, grant, expire}.
--         {1 expired}.
--         {2 completed}.
--         {3 stale token}.
--         {4 unknown}.
-- Writes task, TTL: its slot end and retention; token, TTL: the pool's last slot end and retention,
--        with a primary id 30 days more; leases, TTL: the same and 24 h; queued and due, permanent;
--        events, TTL: 24 h.
-- Cost O(log leases): 10 µs.
local function read_shared(keys, argv, now, first, last)
  local pool = pool_open(keys, argv, now, first, last)
  failover_hold(pool, argv[8], now)
  return pool
end

local RENEW_RENEWED, RENEW_EXPIRED, RENEW_COMPLETED, RENEW_STALE_TOKEN, RENEW_UNKNOWN = 0, 1, 2, 3, 4
local write, RENEWED_REPLY = changes_write, '<I8I8I8I8'

-- Returns the status of a refusal, nil if the lease can be renewed.
local function refused(pool, task, member, token, now)
  if not task or task.state == TASK_NEW then
    return RENEW_UNKNOWN
  elseif token ~= '' and tonumber(token) ~= task.token then
    return RENEW_STALE_TOKEN
  elseif task.state == TASK_DONE or task.state == TASK_FAILED then
    return RENEW_COMPLETED
  elseif not leases_holds_slot(pool, member, task, now) then
    return RENEW_EXPIRED
  end
end

local function decide(pool, now, task_key, member, token, asked_ms)
  local task = pool_task(pool, task_key, member, now)
  local expire = now + (tonumber(asked_ms) or pool.lease_ms) * 1000
  if re_register_is_due(pool, task, member, token, now) then
    task = re_register(pool, task_key, task, member, tonumber(token), expire, now)
    return pack(RENEWED_REPLY, RENEW_RENEWED, task.token, task.grant, task.expire)
  end
  local refusal = refused(pool, task, member, token, now)
  if refusal then
    return pack('<I8', refusal)
  end
  pool.news[#pool.news + 1] = pool_event(POOL_EVENT_RENEWED, task.token, task.attempt, member, now)
  changes_list_lease(pool, leases_encode(member, task), false)
  task.is_disclosed, task.lease, task.expire = true, nil, expire
  task.slot_end = task.expire + pool.grace_ms * 1000
  grant_write_lease(pool, task_key, member, task, max(pool.last_token, task.token), now)
  return pack(RENEWED_REPLY, RENEW_RENEWED, task.token, task.grant, task.expire)
end
