-- The reply of GetPool and ConfigurePool.
--
-- @include leases

-- Number of leases that a view reads for its oldest grant and its next expiry.
local POOL_VIEW_LEASES_MAX = 256

local function pool_view(status, leases_key, now, capacity, lease_ms, grace_ms, paused, max_attempts, set)
  local oldest, next_expire = 0, 0
  local first = call('ZRANGEBYSCORE', leases_key, format('(%.0f', now), '+inf', 'LIMIT', 0, POOL_VIEW_LEASES_MAX)
  for _, text in ipairs(first) do
    local grant, expire = leases_times(text)
    if not grant then
      error('CORRUPT lease in the pool; ConfigurePool with reset repairs it', 0)
    end
    if oldest == 0 or grant < oldest then
      oldest = grant
    end
    if expire > now and (next_expire == 0 or expire < next_expire) then
      next_expire = expire
    end
  end
  local in_use = leases_count(leases_key, now)
  return { status, capacity, in_use, lease_ms, grace_ms, paused, max_attempts, set, oldest, next_expire }
end
