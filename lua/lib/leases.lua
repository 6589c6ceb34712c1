-- Leases as they are counted.

-- How the lease of a device and task is listed.
local function lease_member(member, task)
  local lease = task.lease or '\31' .. pack('<I8I8I8I4', task.token, task.grant, task.expire, task.attempt)
  return member .. lease
end

-- Device and task, token, grant, expiry and attempt of a lease; nil when it is none.
local function parse_lease(lease)
  local member = match(lease, '^([^\31]+\31[^\31]+)\31')
  if not member or #lease ~= #member + 29 then
    return nil
  end
  local token, grant, expire, attempt = scan('<I8I8I8I4', lease, #member + 2)
  if max(token, grant, expire) <= TIME_MAX then
    return member, token, grant, expire, attempt
  end
end

-- The leases are the count: an ended one that is not yet reclaimed is not in it.
local function count_in_use(leases_key, now)
  return call('ZCOUNT', leases_key, format('(%.0f', now), '+inf')
end

-- Whether a lease is listed; of a pool that items share (lib/pool_changes.lua), what they have
-- changed of it counts.
local function is_listed(pool, lease)
  local changed = pool.changed and pool.changed[lease]
  if changed ~= nil then
    return changed ~= false
  end
  return call('ZSCORE', pool.leases, lease) ~= false
end

local function holds_slot(pool, member, task, now)
  return task.state == 'L' and now < task.slot_end and is_listed(pool, lease_member(member, task))
end
