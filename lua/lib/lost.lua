-- Re-registration of leases that a failover lost while their holders still use them. A failover
-- loses the end of the history, and tokens grow: a lost grant has a token above all known ones.
-- A known lease that had ended before may have made room for a lost one. A lost renewal is
-- therefore accepted only if its lease had not ended when the new primary took over.

-- Highest possible lead of a token over the clock, µs.
local AHEAD_MAX = 86400 * 1000000

-- Whether a holder presents a lost lease, or a lease whose renewal was lost.
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

-- Lists the lease again, even above the capacity: its holder uses it.
local function register_again(pool, task_key, known, member, token, expire, now)
  local task = known or { attempt = 0 }
  if task.state == 'L' and is_listed(pool, lease_member(member, task)) then
    -- An earlier lease of the task, or this lease before its renewal.
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
