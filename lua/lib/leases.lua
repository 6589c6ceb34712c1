-- Leases as they are counted.

local function lease_member(member, task)
  local attempt = task.attempt > 0 and format('\31%.0f', task.attempt) or ''
  return format('%s\31%.0f\31%.0f\31%.0f', member, task.token, task.grant, task.expire) .. attempt
end

-- Device and task, token, grant, expiry and attempt of a lease; nil when it is none.
local function parse_lease(text)
  local member, token, grant, expire, attempt =
    match(text, '^([^\31]+\31[^\31]+)\31(%d+)\31(%d+)\31(%d+)\31?(%d*)$')
  token, grant, expire = tonumber(token), tonumber(grant), tonumber(expire)
  if member and math.max(token, grant, expire) <= TIME_MAX then
    return member, token, grant, expire, tonumber(attempt) or 0
  end
end

-- The leases are the count: an ended one that is not yet reclaimed is not in it.
local function count_in_use(leases_key, now)
  return call('ZCOUNT', leases_key, format('(%.0f', now), '+inf')
end

local function holds_slot(leases_key, member, task, now)
  return task.state == 'L'
    and now < task.slot_end
    and call('ZSCORE', leases_key, lease_member(member, task)) ~= false
end
