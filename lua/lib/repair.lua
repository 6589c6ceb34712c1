-- ConfigurePool with reset: drops the run-time settings and unreadable values, and ends a
-- failover hold. At most REPAIR_MAX leases are checked.
local REPAIR_MAX = 1000
-- No slot ends later: 24 h of lease and 30 days of grace, µs.
local SLOT_MAX = 31 * 86400 * 1000000

local function is_none_or(key, kind)
  local is = call('TYPE', key).ok
  return is == 'none' or is == kind
end

local function repair(pool, now)
  call('DEL', pool.settings)
  if not is_none_or(pool.queue, 'zset') or not is_none_or(pool.places, 'hash') then
    call('DEL', pool.queue, pool.places) -- waiting calls queue again
  end
  local known, record = pcall(function()
    return read_token(read(pool.token)[1])
  end)
  if not known then
    call('DEL', pool.token)
  elseif record.held > now then
    record.held = 0
    call('SET', pool.token, token_record(record.token, record.horizon, record), 'KEEPTTL')
  end
  if not pcall(page_events, pool.events, '', 1) then
    call('DEL', pool.events)
  end
  local sorted = is_none_or(pool.backlog, 'zset') and is_none_or(pool.due, 'zset')
  if not sorted or not is_none_or(pool.queued, 'hash') then
    call('DEL', pool.queued, pool.backlog, pool.due)
  end
  if not is_none_or(pool.leases, 'zset') then
    call('DEL', pool.leases)
  end
  call('ZREMRANGEBYSCORE', pool.leases, format('(%.0f', now + SLOT_MAX), '+inf')
  local first = call('ZRANGEBYSCORE', pool.leases, format('(%.0f', now), '+inf', 'LIMIT', 0, REPAIR_MAX)
  for _, text in ipairs(first) do
    if not parse_lease(text) then
      call('ZREM', pool.leases, text)
    end
  end
end
