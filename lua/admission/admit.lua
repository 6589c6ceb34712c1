-- Grants a task of a device a lease if its pool has room and it is its turn.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] token string: the last fencing token
-- keys[3] task string: the task's record
-- keys[4] leases zset: the pool's leases by the end of their slot
-- keys[5] queue zset: who waits, by ticket
-- keys[6] places hash: the calls that wait, and their servers
-- argv[1] member device and task, joined by \31
-- argv[2] asked_ms ms, 100..86400000, empty for the pool's
-- argv[3] seed 0..2^32-1, spreads retry_after
-- argv[4] has_task 0 when task_id is empty, else 1
-- argv[5] capacity default, 0..1000000
-- argv[6] lease_ms default, ms, 100..86400000
-- argv[7] grace_ms default, ms, 0..2592000000
-- argv[8] paused default, 0 or 1
-- argv[9] retention_ms ms, 60000..2592000000
-- argv[10] barging 1 when a free slot may be taken though others wait, else 0
-- argv[11] place "number ticket wait_ms keep_ms channel", empty for a call that does not wait
--
-- Returns {0 granted, capacity, in_use, token, grant, expire}
--         {1 replayed, capacity, in_use, token, grant, expire}
--         {2 full, capacity, in_use, retry_after ms, ticket, 0 or 1: ask again at once}
--         {3 no task, capacity, in_use}
--         {4 paused, capacity, in_use, retry_after ms}
--         {5 already completed, capacity, in_use}
-- Writes token, task, leases; TTL: the pool's last slot end and retention; queue and
--        places, TTL: 2 minutes
-- Cost O(log leases + log waiters); reclaims at most 100 ended leases and 500 lapsed places
local PAUSED_RETRY = 10 * 1000000
local SPREAD_MIN, SPREAD_MAX = 50 * 1000, 5 * 1000000
local RECLAIM_MAX = 100
-- For a slot that is free, but kept for those that wait.
local KEPT_RETRY = 50 * 1000

-- Milliseconds to wait, spread over an eighth of the wait: long waits that end
-- together come back further apart, and no slot idles long for it.
local function spread(wait, seed, now)
  local window = math.min(math.max(math.floor(wait / 8), SPREAD_MIN), SPREAD_MAX)
  return math.ceil((wait + (seed + now) % window) / 1000)
end

local function decide(keys, argv, now)
  local settings_key, token_key, task_key, leases_key = keys[1], keys[2], keys[3], keys[4]
  local queue_key, places_key = keys[5], keys[6]
  local member, asked_ms, seed, has_task = argv[1], tonumber(argv[2]), tonumber(argv[3]), argv[4] == '1'
  local retention_ms, barging, place = tonumber(argv[9]), argv[10] == '1', argv[11]

  local stored = read(settings_key, token_key, task_key)
  local capacity, lease_ms, grace_ms, paused = read_settings(
    stored[1], tonumber(argv[5]), tonumber(argv[6]), tonumber(argv[7]), tonumber(argv[8])
  )
  local last_token, horizon = read_token(stored[2])
  local task = read_task(stored[3], now)
  local in_use = count_in_use(leases_key, now)
  local free, own, answer, turn, ticket = capacity - in_use, 0, nil, true, 0

  if task and task.state == 'D' then
    answer = { 5, capacity, in_use }
  elseif task and holds_slot(leases_key, member, task, now) then
    own = 1 -- within the grace: a task does not compete with itself
    answer = now < task.expire and { 1, capacity, in_use, task.token, task.grant, task.expire }
  end
  if not answer and not has_task then
    answer = { 3, capacity, in_use }
  elseif not answer and (paused == 1 or capacity == 0) then
    answer = { 4, capacity, in_use, spread(PAUSED_RETRY, seed, now) }
  end
  if answer or own == 1 and free + own > 0 then
    needs_no_turn(queue_key, places_key, member, place, free, now)
  else
    turn, ticket = take_turn(queue_key, places_key, member, place, free, barging, now)
  end
  if answer then
    return answer
  elseif not turn then
    -- When this lease ends, one less than the capacity are left.
    local last = free <= 0 and call('ZREVRANGE', leases_key, capacity - 1, capacity - 1, 'WITHSCORES')[2]
    local wait = last and tonumber(last) - now or KEPT_RETRY
    return { 2, capacity, in_use, spread(wait, seed, now), ticket }
  end

  if own == 1 then
    call('ZREM', leases_key, lease_member(member, task))
  end
  local lease = { token = math.max(last_token + 1, now), grant = now }
  lease.expire = now + (asked_ms or lease_ms) * 1000
  lease.slot_end = lease.expire + grace_ms * 1000
  local written = { leases = leases_key, token = token_key, task = task_key }
  write_lease(written, member, lease, lease.token, horizon, retention_ms, now)

  in_use = in_use - own + 1
  local ended = call('ZCARD', leases_key) - in_use
  if ended > 0 then
    call('ZREMRANGEBYRANK', leases_key, 0, math.min(ended, RECLAIM_MAX) - 1)
  end
  return { 0, capacity, in_use, lease.token, lease.grant, lease.expire }
end
