-- ConfigurePool with reset: drops the run-time settings and unreadable values, and ends a
-- failover hold. At most REPAIR_MAX leases are checked.
--
-- @include events leases strings token
local REPAIR_LEASES_MAX = 1000
-- The longest time until a slot ends: 24 h of lease and 30 days of grace, µs.
local REPAIR_SLOT_MAX = 31 * 86400 * 1000000

local function repair_is_none_or(key, kind)
  local is = call('TYPE', key).ok
  return is == 'none' or is == kind
end

local function repair(pool, now)
  call('DEL', pool.settings)
  if not repair_is_none_or(pool.queue, 'zset') or not repair_is_none_or(pool.places, 'hash') then
    call('DEL', pool.queue, pool.places) -- waiting calls queue again
  end
  local known, record = pcall(function()
    return token_decode(strings_read(pool.token)[1])
  end)
  if not known then
    call('DEL', pool.token)
  elseif record.held > now then
    record.held = 0
    call('SET', pool.token, token_encode(record.token, record.horizon, record), 'KEEPTTL')
  end
  if not pcall(events_page, pool.events, '', 1) then
    call('DEL', pool.events)
  end
  local sorted = repair_is_none_or(pool.backlog, 'zset') and repair_is_none_or(pool.due, 'zset')
  if not sorted or not repair_is_none_or(pool.queued, 'hash') then
    call('DEL', pool.queued, pool.backlog, pool.due)
  end
  if not repair_is_none_or(pool.leases, 'zset') then
    call('DEL', pool.leases)
  end
  call('ZREMRANGEBYSCORE', pool.leases, format('(%.0f', now + REPAIR_SLOT_MAX), '+inf')
  local first = call('ZRANGEBYSCORE', pool.leases, format('(%.0f', now), '+inf', 'LIMIT', 0, REPAIR_LEASES_MAX)
  for _, text in ipairs(first) do
    if not leases_decode(text) then
      call('ZREM', pool.leases, text)
    end
  end
end
