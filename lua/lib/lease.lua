-- How a lease is put on record, for the scripts that grant or extend one.

-- Puts a lease into the count and on record, and keeps the pool's keys until
-- the last instant at which one of its leases can matter.
local function put_lease(pool, task_key, member, task, last_token, now)
  local forget = task.slot_end + pool.retention
  if pool.horizon == 0 then
    -- No token record: the leases that are there must not go with this one.
    local last = call('ZREVRANGE', pool.leases, 0, 0, 'WITHSCORES')[2]
    pool.horizon = last and tonumber(last) + pool.retention or 0
  end
  pool.horizon, pool.last_token = math.max(pool.horizon, forget), last_token
  list_lease(pool, lease_member(member, task), task.slot_end)
  pool.has_granted = true
  if not task.standing then
    put_record(pool, task_key, task_record('L', task, forget, ''), forget, now)
    return
  end
  write_pool(pool, now)
  if task.standing ~= 'Q' then
    task.forget = forget
    call('ZADD', pool.due, digits(forget), member)
  end
  write_queued(pool.queued, member, task)
end
