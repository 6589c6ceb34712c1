-- Leases that a failover lost, and that their holders still present. What is lost of a
-- history is its end, and tokens grow in it: a lost grant has a token above all that are
-- known. A lease that is known and had ended by then may have made room for a lost one, so
-- that a lost renewal is made good only of a lease that had not.

-- How far tokens can be ahead of the clock, µs.
local AHEAD_MAX = 86400 * 1000000

-- Whether a holder presents a lease that was lost, or the renewal of which was.
local function was_lost(pool, task, member, token, now)
  local failover = pool.failover
  token = tonumber(token)
  if not pool.is_held or not token or token > now + AHEAD_MAX then
    return false
  elseif task and token == task.token then
    return task.state == 'L' and task.slot_end > failover.began and not holds_slot(pool, member, task, now)
  end
  return token > failover.floor and (not task or token > task.token and task.state ~= 'D')
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
