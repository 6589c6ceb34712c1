-- The answer of AdmitTask for a full pool. It lists the holders of a small pool, so that a server
-- does not refuse one of them from its denial cache.
--
-- @include admit
local FULL_HOLDERS_MAX, FULL_BYTES_MAX = 128, 131072

-- Returns the leases that hold a slot, one after the other; nothing if there are more than
-- FULL_HOLDERS_MAX, or an entry that no script has written. The items of a run share the result.
local function full_holders(pool, now)
  if pool.holders == nil and pool.in_use <= FULL_HOLDERS_MAX then
    local holders = table.concat(call('ZRANGEBYSCORE', pool.leases, format('(%.0f', now), '+inf'))
    pool.holders = #holders <= FULL_BYTES_MAX and holders
  end
  return pool.holders
end

-- Returns the reply, with the holders if `lists` is '1'. `wait` is the time until a lease ends and
-- frees a slot, false if none does.
local function full_reply(pool, retry, ticket, wait, lists, now)
  local holders = wait and lists == '1' and full_holders(pool, now)
  if not holders then
    return pack(ADMIT_NUMBERS6, ADMIT_FULL, pool.capacity, pool.in_use, retry, ticket, wait or 0)
  end
  return { ADMIT_FULL, pool.capacity, pool.in_use, retry, ticket, wait, holders }
end
