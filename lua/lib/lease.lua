-- How a lease is put on record, for the scripts that grant or extend one.

-- Puts a lease into the count and on record, and keeps the pool's keys until
-- the last instant at which one of its leases can matter.
local function write_lease(pool, token_key, task_key, member, task, last_token, horizon, now)
  local forget = task.slot_end + pool.retention
  if horizon == 0 then
    -- No token record: the leases that are there must not go with this one.
    local last = call('ZREVRANGE', pool.leases, 0, 0, 'WITHSCORES')[2]
    horizon = last and tonumber(last) + pool.retention or 0
  end
  horizon = math.max(horizon, forget)
  local ttl_ms = format('%.0f', math.ceil((horizon - now) / 1000))
  call('ZADD', pool.leases, format('%.0f', task.slot_end), lease_member(member, task))
  -- No shorter than its events: that it ends is one, whoever takes it out.
  call('PEXPIRE', pool.leases, format('%.0f', ttl_ms + HISTORY_TTL))
  call('SET', token_key, format('%.0f %.0f', last_token, horizon), 'PX', ttl_ms)
  if not task.standing then
    write_task(task_key, 'L', task, forget, now, '')
    return
  end
  if task.standing ~= 'Q' then
    task.forget = forget
    call('ZADD', pool.due, format('%.0f', forget), member)
  end
  write_queued(pool.queued, member, task)
end
