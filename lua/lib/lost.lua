-- Leases that a failover lost, and that their holders still present.

-- What the primary before may have had that its replica did not, µs.
local LAG_MAX = 10 * 1000000
-- How far tokens can be ahead of the clock, µs.
local AHEAD_MAX = 86400 * 1000000

-- Whether a holder presents a lease that the primary before granted, or renewed, as far as
-- this one can tell: while the pool is held, one that is newer than what is known of the
-- task, or one that had not ended when the failover was seen.
local function was_lost(pool, task, member, token, now)
  token = tonumber(token)
  if pool.held <= now or not token or token > now + AHEAD_MAX then
    return false
  elseif not task then
    return true
  elseif token ~= task.token then
    return token > task.token and task.state ~= 'D'
  end
  local seen = pool.held - (pool.lease_ms + pool.grace_ms) * 1000
  return task.state == 'L' and task.slot_end > seen - LAG_MAX and not holds_slot(pool, member, task, now)
end

-- Puts it into the count again, also above the capacity: it is held.
local function register_again(pool, task_key, known, member, token, expire, now)
  local task = known or { attempt = 0 }
  if task.state == 'L' and is_listed(pool, lease_member(member, task)) then
    -- Of an earlier lease of the task, or of this one before it was renewed.
    if task.slot_end <= now then
      pool.in_use = pool.in_use + 1
    end
    end_lease(pool, member, task, now)
  end
  if task.standing and token ~= task.token then
    task.attempt = task.attempt + 1
  end
  task.state, task.is_told, task.lease = 'L', true, nil
  task.token, task.grant, task.expire = token, now, expire
  task.slot_end = expire + pool.grace_ms * 1000
  pool.news[#pool.news + 1] = event(ADMITTED, token, task.attempt, member, now, nil, pool.capacity)
  put_lease(pool, task_key, member, task, max(pool.last_token, token), now)
  return task
end
