-- How a lease is put on record, for the scripts that grant or extend one.

-- Puts a lease into the count and on record, and keeps the pool's keys until
-- the last instant at which one of its leases can matter.
local function write_lease(keys, member, task, last_token, horizon, retention_ms, now)
  local retention = retention_ms * 1000
  local forget = task.slot_end + retention
  if horizon == 0 then
    -- No token record: the leases that are there must not go with this one.
    local last = call('ZREVRANGE', keys.leases, 0, 0, 'WITHSCORES')[2]
    horizon = last and tonumber(last) + retention or 0
  end
  horizon = math.max(horizon, forget)
  local ttl_ms = format('%.0f', math.ceil((horizon - now) / 1000))
  call('ZADD', keys.leases, format('%.0f', task.slot_end), lease_member(member, task))
  call('PEXPIRE', keys.leases, ttl_ms)
  call('SET', keys.token, format('%.0f %.0f', last_token, horizon), 'PX', ttl_ms)
  write_task(keys.task, 'L', task, forget, now, '')
end
