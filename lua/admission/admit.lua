-- Grants a task of a device a lease if its pool has room and it is its turn.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] token string: the last fencing token
-- keys[3] task string: the task's record
-- keys[4] leases zset: the pool's leases by the end of their slot
-- keys[5] queue zset: who waits, by ticket
-- keys[6] places hash: the calls that wait, and their servers
-- keys[7] events list: the pool's history
-- keys[8] queued hash: tasks that were queued
-- keys[9] backlog zset: those that are queued, by device and age
-- keys[10] due zset: when queued ones expire and others are forgotten
-- argv[1] device
-- argv[2] task empty for the device's oldest queued one
-- argv[3] asked_ms ms, 100..86400000, empty for the pool's
-- argv[4] seed 0..2^32-1, spreads retry_after
-- argv[5] capacity default, 0..1000000
-- argv[6] lease_ms default, ms, 100..86400000
-- argv[7] grace_ms default, ms, 0..2592000000
-- argv[8] paused default, 0 or 1
-- argv[9] max_attempts default, 1..1000
-- argv[10] retention_ms ms, 60000..2592000000
-- argv[11] history events kept at least, 100..1000000
-- argv[12] barging 1 when a free slot may be taken though others wait, else 0
-- argv[13] place "number ticket wait_ms keep_ms channel", empty for a call that does not wait
--
-- Returns {0 granted, capacity, in_use, token, grant, expire, (attempt, task, payload) when queued}
--         {1 replayed, the same}
--         {2 full, capacity, in_use, retry_after ms, ticket, 0 or 1: ask again at once, µs until
--          a lease's end makes room or 0}
--         {3 no task, capacity, in_use}
--         {4 paused, capacity, in_use, retry_after ms}
--         {5 finished, capacity, in_use}
-- Writes token, task, leases; TTL: the pool's last slot end and retention; queue and
--        places, TTL: 2 minutes; queued, backlog and due, permanent; events, TTL: 24 h
-- Cost O(log leases + log waiters + log queued); takes at most 100 ended leases, 100 expired
--      tasks of the device and 500 lapsed places out of the way
local function decide(keys, argv, now)
  local settings_key, token_key, task_key = keys[1], keys[2], keys[3]
  local leases_key, queue_key, places_key = keys[4], keys[5], keys[6]
  local pool = { leases = leases_key, events = keys[7], queued = keys[8], backlog = keys[9], due = keys[10] }
  local device, named, asked_ms, seed = argv[1], argv[2], tonumber(argv[3]), tonumber(argv[4])
  local barging, place, waiter = argv[12] == '1', argv[13], device .. '\31' .. named

  local stored = read(settings_key, token_key, task_key)
  local capacity, lease_ms, grace_ms, paused, max_attempts = read_settings(
    stored[1], tonumber(argv[5]), tonumber(argv[6]), tonumber(argv[7]), tonumber(argv[8]), tonumber(argv[9])
  )
  pool.max_attempts, pool.retention, pool.history = max_attempts, argv[10] * 1000, tonumber(argv[11])
  local last_token, horizon = read_token(stored[2])
  local in_use = count_in_use(leases_key, now)
  local ended = reclaim(pool, call('ZCARD', leases_key) - in_use, now)
  local member, task, more
  if named == '' then
    member, task, more = oldest_task(pool, device, ended > 0, now)
  else
    member, task, more = named_task(pool, waiter, stored[3], ended > 0, now)
  end

  local free, answer = capacity - in_use, nil
  local own = task and holds_slot(leases_key, member, task, now) and 1 or 0
  if own == 1 and now < task.expire then
    answer = admitted(1, capacity, in_use, member, task)
  elseif task and (task.state == 'D' or (task.standing or 'Q') ~= 'Q') then
    answer = { 5, capacity, in_use }
  elseif more then
    answer = { 2, capacity, in_use, 1, AGAIN, 0 }
  elseif not task and named == '' then
    answer = { 3, capacity, in_use }
  elseif paused == 1 or capacity == 0 then
    answer = { 4, capacity, in_use, spread(PAUSED_RETRY, seed, now) }
  elseif own == 1 and is_over(pool, task, now) then
    -- It leaves the queue with its slot, which is not for another task before.
    answer = { 2, capacity, in_use, spread(task.slot_end - now, seed, now), 0, 0 }
  elseif ended > 0 and free + own > 0 and in_use - own + ended >= capacity then
    answer = { 2, capacity, in_use, 1, AGAIN, 0 } -- the events of ended leases come first
  end
  local turn, ticket = true, 0
  call('LLEN', pool.events) -- fails where it is of another type
  if answer or own == 1 and free + own > 0 then
    needs_no_turn(queue_key, places_key, waiter, place, free, now)
  else
    turn, ticket = take_turn(queue_key, places_key, waiter, place, free, barging, now)
  end
  if answer then
    return answer
  elseif not turn then
    -- When this lease ends, one less than the capacity are left.
    local last = free <= 0 and call('ZREVRANGE', leases_key, capacity - 1, capacity - 1, 'WITHSCORES')[2]
    local room = last and tonumber(last) - now or 0
    return { 2, capacity, in_use, spread(last and room or KEPT_RETRY, seed, now), ticket, room }
  end

  if own == 1 then
    expire(pool, member, task, now)
  end
  local lease = task and task.standing and task or { attempt = 0 }
  lease.attempt = lease.standing and lease.attempt + 1 or 0
  lease.state, lease.token, lease.grant = 'L', math.max(last_token + 1, now), now
  lease.expire = now + (asked_ms or lease_ms) * 1000
  lease.slot_end = lease.expire + grace_ms * 1000
  log_events(pool.events, pool.history, now, event(ADMITTED, lease.token, lease.attempt, member, now, 0, capacity))
  write_lease(pool, token_key, task_key, member, lease, lease.token, horizon, now)
  return admitted(0, capacity, in_use - own + 1, member, lease)
end
