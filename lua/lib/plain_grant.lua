-- Leases that a plain script grants (admission/admit_plain.lua). They are written together.
--
-- @include digits events fencing plain plain_pool pool_event task
local PLAIN_GRANT_STATUS, PLAIN_GRANT_NUMBERS = 0, '<I8I8I8I8I8I8'

-- Writes the granted leases, after their events.
local function plain_grant_write(pool)
  events_append(pool.events, pool.history, now, unpack(pool.news))
  call('ZADD', pool.leases, unpack(pool.listed))
  local ttl_ms = ceil((pool.horizon - now) / 1000)
  call('PEXPIRE', pool.leases, digits(ttl_ms + EVENTS_TTL))
  call('SET', pool.token_key, digits(pool.last_token) .. ' ' .. digits(pool.horizon), 'PX', digits(ttl_ms))
  local records = pool.records
  for i = 1, #records, 3 do
    call('SET', records[i], records[i + 1], 'PX', records[i + 2])
  end
end

-- Writes the pending grants, and appends their replies.
local function plain_grant_flush(pool)
  if #pool.granted > 0 then
    plain_pool_write(pool, #pool.granted, plain_grant_write)
    for i = 1, #pool.granted do
      plain_reply(pool.granted[i], 1)
    end
  end
  pool.granted, pool.news, pool.listed, pool.records = {}, {}, {}, {}
end

-- Grants a task the next lease of the pool.
local function plain_grant_add(pool, task_key, member, lease_ms)
  local token = fencing_next_token(pool.last_token, now)
  local expire = now + (lease_ms > 0 and lease_ms or pool.lease_ms) * 1000
  local slot_end = expire + pool.grace
  local forget = slot_end + pool.retention
  pool.in_use, pool.last_token, pool.horizon = pool.in_use + 1, token, max(pool.horizon, forget)
  local granted, listed, records = pool.granted, pool.listed, pool.records
  local number = #granted
  granted[number + 1] = pack(PLAIN_GRANT_NUMBERS, PLAIN_GRANT_STATUS, pool.capacity, pool.in_use, token, now, expire)
  pool.news[number + 1] = POOL_EVENT_ADMITTED .. ' ' .. format(DIGITS_FORM, token) .. pool.middle .. member
  listed[2 * number + 1] = digits(slot_end)
  listed[2 * number + 2] = member .. '\31' .. pack('<I8I8I8I4', token, now, expire, 0)
  records[3 * number + 1] = task_key
  records[3 * number + 2] = pack(TASK_FORM, TASK_LEASED, token, now, expire, slot_end, forget)
  records[3 * number + 3] = digits(ceil((forget - now) / 1000))
end
