-- Re-registration of leases that a failover lost while their holders still use them. A failover
-- loses the end of the history, and tokens grow, so a lost grant has a token above all known ones.
-- A known lease that had already ended may have given its slot to a lost one, so a lost renewal is
-- accepted only if its lease had not ended when the new primary took over.
--
-- @include changes grant leases pool_event task

-- Highest possible lead of a token over the clock, µs.
local RE_REGISTER_LEAD_MAX = 86400 * 1000000

-- Returns whether a holder presents a lost lease, or a lease whose renewal was lost.
local function re_register_is_due(pool, task, member, token, now)
  local failover = pool.failover
  token = tonumber(token)
  if not pool.is_held or not token or token > now + RE_REGISTER_LEAD_MAX then
    return false
  elseif task and token == task.token then
    local was_running = task.state == TASK_LEASED and task.slot_end > failover.began
    return was_running and not leases_holds_slot(pool, member, task, now)
  end
  return token > failover.floor and (not task or token > task.token and task.state ~= TASK_DONE)
end

-- Lists the lease again, even above the capacity, since its holder uses it.
local function re_register(pool, task_key, known, member, token, expire, now)
  local task = known or { attempt = 0 }
  if task.state == TASK_LEASED and leases_is_listed(pool, leases_encode(member, task)) then
    -- An earlier lease of the task, or this lease before its renewal.
    if task.slot_end <= now then
      pool.in_use = pool.in_use + 1
    end
    changes_replace_lease(pool, member, task, now)
  end
  if task.standing and token ~= task.token then
    task.attempt = task.attempt + 1
  end
  task.state, task.is_disclosed, task.lease = TASK_LEASED, true, nil
  task.token, task.grant, task.expire = token, now, expire
  task.slot_end = expire + pool.grace_ms * 1000
  pool.news[#pool.news + 1] = pool_event(POOL_EVENT_ADMITTED, token, task.attempt, member, now, nil, pool.capacity)
  grant_write_lease(pool, task_key, member, task, max(pool.last_token, token), now)
  return task
end
