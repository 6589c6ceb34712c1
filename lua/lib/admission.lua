-- How a pool is written down. All times are microseconds.
--
-- settings  "capacity,lease_ms,grace_ms,paused", empty where not overridden
-- token     "token horizon": the last fencing token, and the last instant at
--           which a lease or record of the pool can matter
-- task:…    "state token grant expire slot_end forget …", state L (leased),
--           D (done, then outcome and result) or E (evicted, then the reason)
-- leases    zset of "device\31task\31token\31grant\31expire" by slot_end
local call, format, match = redis.call, string.format, string.match

local function read_settings(text, capacity, lease_ms, grace_ms, paused)
  if not text then
    return capacity, lease_ms, grace_ms, paused, 0
  end
  local c, l, g, p = match(text, '^(%d*),(%d*),(%d*),(%d*)$')
  if not c then
    error('CORRUPT settings of the pool; ConfigurePool with reset repairs it', 0)
  end
  local set = (c ~= '' and 1 or 0) + (l ~= '' and 2 or 0) + (g ~= '' and 4 or 0) + (p ~= '' and 8 or 0)
  return tonumber(c) or capacity, tonumber(l) or lease_ms, tonumber(g) or grace_ms, tonumber(p) or paused, set
end

local function read_token(text)
  if not text then
    return 0, 0
  end
  local token, horizon = match(text, '^(%d+) (%d+)$')
  if not token then
    error('CORRUPT fencing token of the pool; ConfigurePool with reset repairs it', 0)
  end
  return tonumber(token), tonumber(horizon)
end

-- nil when nothing is known of the task, or no longer.
local function read_task(text, now)
  if not text then
    return nil
  end
  local state, token, grant, expire, slot_end, forget = match(text, '^([LDE]) (%d+) (%d+) (%d+) (%d+) (%d+)')
  if not state then
    error('CORRUPT record of the task; EvictTask drops it', 0)
  end
  if tonumber(forget) <= now then
    return nil
  end
  return {
    state = state,
    token = tonumber(token),
    grant = tonumber(grant),
    expire = tonumber(expire),
    slot_end = tonumber(slot_end),
  }
end

local function write_task(key, state, task, forget, now, rest)
  local record = format(
    '%s %.0f %.0f %.0f %.0f %.0f',
    state, task.token, task.grant, task.expire, task.slot_end, forget
  )
  call('SET', key, record .. rest, 'PX', format('%.0f', math.ceil((forget - now) / 1000)))
end

local function lease_member(member, task)
  return format('%s\31%.0f\31%.0f\31%.0f', member, task.token, task.grant, task.expire)
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

-- Puts a lease into the count and on record, and keeps the pool's keys until
-- the last instant at which one of its leases can matter.
local function write_lease(keys, member, task, last_token, horizon, retention_ms, now)
  local forget = task.slot_end + retention_ms * 1000
  horizon = math.max(horizon, forget)
  local ttl_ms = format('%.0f', math.ceil((horizon - now) / 1000))
  call('ZADD', keys.leases, format('%.0f', task.slot_end), lease_member(member, task))
  call('PEXPIRE', keys.leases, ttl_ms)
  call('SET', keys.token, format('%.0f %.0f', last_token, horizon), 'PX', ttl_ms)
  write_task(keys.task, 'L', task, forget, now, '')
end
