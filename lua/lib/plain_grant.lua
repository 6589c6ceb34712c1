-- Leases that a plain script grants or extends, which are written together.
--
-- @include digits events plain plain_pool plain_write task

-- Writes the granted leases, after their events.
local function plain_grant_write(pool)
  events_append(pool.events, pool.history, now, unpack(pool.news))
  if #pool.gone > 0 then
    call('ZREM', pool.leases, unpack(pool.gone))
  end
  call('ZADD', pool.leases, unpack(pool.listed))
  local ttl_ms = ceil((pool.horizon - now) / 1000)
  call('PEXPIRE', pool.leases, digits(ttl_ms + EVENTS_TTL))
  call('SET', pool.token_key, digits(pool.last_token) .. ' ' .. digits(pool.horizon), 'PX', digits(ttl_ms))
  local records = pool.records
  for i = 1, #records, 3 do
    call('SET', records[i], records[i + 1], 'PX', records[i + 2])
  end
end

-- Writes the pending leases, and appends their replies.
local function plain_grant_flush(pool)
  local replies = pool.replies
  if #replies > 0 then
    plain_write(pool, #replies, plain_grant_write)
    for i = 1, #replies do
      plain_reply(replies[i], 1)
    end
    pool.replies, pool.news, pool.gone, pool.listed, pool.records = {}, {}, {}, {}, {}
  end
end

-- Returns the pool with its token record; nil if it is not plain, or if its record is that of a pool with
-- failover holds.
local function plain_grant_open(at, first, number, argument)
  local pool, texts = plain_pool_open(at, first, number, argument)
  local token, horizon = match(pool and texts[2] or '', '^(%d+) (%d+)$')
  if not token or max(tonumber(token), tonumber(horizon)) > TIME_MAX then
    return nil
  end
  pool.last_token, pool.horizon = tonumber(token), tonumber(horizon)
  pool.replies, pool.news, pool.gone, pool.listed, pool.records = {}, {}, {}, {}, {}
  return pool, texts
end

-- Adds a lease that is granted or extended now, with its event and its reply. `lease_ms` is its
-- duration, 0 for the pool's.
local function plain_grant_add(pool, task_key, member, state, token, grant, lease_ms, event, reply)
  local expire = now + (lease_ms > 0 and lease_ms or pool.lease_ms) * 1000
  local slot_end = expire + pool.grace
  local forget = slot_end + pool.retention
  pool.last_token, pool.horizon = max(pool.last_token, token), max(pool.horizon, forget)
  local listed, records, number = pool.listed, pool.records, #pool.replies
  pool.replies[number + 1] = reply .. pack('<I8I8I8', token, grant, expire)
  pool.news[number + 1] = event .. member
  listed[2 * number + 1] = digits(slot_end)
  listed[2 * number + 2] = member .. '\31' .. pack('<I8I8I8I4', token, grant, expire, 0)
  records[3 * number + 1] = task_key
  records[3 * number + 2] = pack(TASK_FORM, state, token, grant, expire, slot_end, forget)
  records[3 * number + 3] = digits(ceil((forget - now) / 1000))
end
