-- Expires leases and queued tasks of a pool in the background, and drops forgotten records.
--
-- @include allowance expiry leases queued settings strings
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] leases zset: the pool's leases by the end of their slot
-- keys[3] events list: the pool's history
-- keys[4] queued hash: records of queued tasks
-- keys[5] backlog zset: queued tasks by device and age
-- keys[6] due zset: queued tasks by when the sweeper must handle them
-- keys[7] queue zset: waiters by ticket
-- argv[1] max_attempts default, 1..1000
-- argv[2] retention_ms ms, 60000..2592000000
-- argv[3] history events kept at least, 100..1000000
--
-- Returns {0, 1 if more has ended than one call removes, next end µs or 0, 1 if the pool is
--          vacant: no lease, queued task, setting or waiter}
-- Writes leases (removes); queued, backlog and due, permanent; events, TTL: 24 h
-- Cost O(log leases + log queued); spends one allowance (lib/allowance.lua): 100 leases (0.8 ms), 42
--      leases whose tasks die or 42 expired tasks (3 ms with payloads of 64 KiB)

local function sweep_task(pool, member, now)
  local readable, task = pcall(queued_read, pool, member, now)
  if readable and not task then
    call('HDEL', pool.queued, member, '\31' .. member)
  elseif readable and expiry_leave_if_over(pool, member, task, now) then
    return
  end
  -- If its lease has not ended, the task ends with the lease.
  call('ZREM', pool.due, member)
end

local function first_of(key)
  return tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0
end

local function decide(keys, argv, now)
  local settings_key = keys[1]
  local pool = { leases = keys[2], events = keys[3], queued = keys[4], backlog = keys[5], due = keys[6] }
  pool.retention, pool.history = argv[2] * 1000, tonumber(argv[3])
  local _, _, _, _, max_attempts =
    settings_read(strings_read(settings_key)[1], nil, nil, nil, nil, tonumber(argv[1]))
  pool.max_attempts = max_attempts

  local left = expiry_reclaim(pool, call('ZCARD', pool.leases) - leases_count(pool.leases, now), now)
  if left > 0 then
    return { OK, 1, 0, 0 }
  end
  -- 0 comes first: after it, the -0 of a small negative allowance is no integer to Redis.
  local most = math.max(0, math.ceil(allowance / ALLOWANCE_TASK))
  for _, member in ipairs(call('ZRANGEBYSCORE', pool.due, '-inf', format('%.0f', now), 'LIMIT', 0, most)) do
    sweep_task(pool, member, now)
  end
  local lease, due = first_of(pool.leases), first_of(pool.due)
  local next = (lease > 0 and due > 0) and math.min(lease, due) or math.max(lease, due)
  local is_vacant = next == 0 and call('EXISTS', settings_key, pool.backlog, keys[7]) == 0
  return { OK, next > 0 and next <= now and 1 or 0, next, is_vacant and 1 or 0 }
end
