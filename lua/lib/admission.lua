-- How a pool is written down. All times are microseconds.
--
-- settings  "capacity,lease_ms,grace_ms,paused", empty where not overridden
-- token     "token horizon": the last fencing token, and the last instant at
--           which a lease or record of the pool can matter
-- task:…    "state token grant expire slot_end forget …", state L (leased),
--           D (done, then outcome and result) or E (evicted, then the reason)
-- leases    zset of "device\31task\31token\31grant\31expire" by slot_end
local call, format, match = redis.call, string.format, string.match

-- Instants and tokens stay below 2^52, the year 2112: sums of them are exact.
local TIME_MAX = 4503599627370495
local UNREADABLE_SETTINGS = 'CORRUPT settings of the pool; ConfigurePool with reset repairs it'

-- The stored strings, false for those that are not there.
local function read(...)
  local texts, there = call('MGET', ...), 0
  for i = 1, #texts do
    there = there + (texts[i] and 1 or 0)
  end
  -- MGET takes a value of another type for absent; EXISTS does not.
  if there < #texts and call('EXISTS', ...) > there then
    error('CORRUPT value of another type; ConfigurePool with reset or EvictTask repairs it', 0)
  end
  return texts
end

-- Settings in force: capacity, lease, grace, paused, and which are overridden.
local function read_settings(text, capacity, lease_ms, grace_ms, paused)
  if not text then
    return capacity, lease_ms, grace_ms, paused, 0
  end
  local c, l, g, p = match(text, '^(%d*),(%d*),(%d*),(%d*)$')
  if not c then
    error(UNREADABLE_SETTINGS, 0)
  end
  local set = (c ~= '' and 1 or 0) + (l ~= '' and 2 or 0) + (g ~= '' and 4 or 0) + (p ~= '' and 8 or 0)
  c, l, g, p = tonumber(c), tonumber(l), tonumber(g), tonumber(p)
  if (c or 0) > 1000000 or (l or 100) < 100 or (l or 0) > 86400000 or (g or 0) > 2592000000 or (p or 0) > 1 then
    error(UNREADABLE_SETTINGS, 0)
  end
  return c or capacity, l or lease_ms, g or grace_ms, p or paused, set
end

-- The last token, and the horizon; 0 when nothing is known of them.
local function read_token(text)
  if not text then
    return 0, 0
  end
  local token, horizon = match(text, '^(%d+) (%d+)$')
  token, horizon = tonumber(token), tonumber(horizon)
  if not token or token > TIME_MAX or horizon > TIME_MAX then
    error('CORRUPT fencing token of the pool; ConfigurePool with reset repairs it', 0)
  end
  return token, horizon
end

-- nil when nothing is known of the task, or no longer.
local function read_task(text, now)
  if not text then
    return nil
  end
  local state, token, grant, expire, slot_end, forget = match(text, '^([LDE]) (%d+) (%d+) (%d+) (%d+) (%d+)')
  token, grant, expire = tonumber(token), tonumber(grant), tonumber(expire)
  slot_end, forget = tonumber(slot_end), tonumber(forget)
  if not state or math.max(token, grant, expire, slot_end, forget) > TIME_MAX then
    error('CORRUPT record of the task; EvictTask drops it', 0)
  end
  if forget <= now then
    return nil
  end
  return { state = state, token = token, grant = grant, expire = expire, slot_end = slot_end }
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
