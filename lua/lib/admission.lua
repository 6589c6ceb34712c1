-- How a pool is written down. All times are microseconds.
--
-- settings  "capacity,lease_ms,grace_ms,paused,max_attempts", empty where not overridden
-- token     "token horizon": the last fencing token, and the last instant at
--           which a lease or record of the pool can matter
-- task:…    "state token grant expire slot_end forget …", state L (leased),
--           D (done, then outcome and result) or E (evicted, then the reason)
-- leases    zset of "device\31task\31token\31grant\31expire" by slot_end, and
--           "\31attempt" behind it of a task that was queued (lib/tasks.lua)
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

local function parse_settings(text)
  local c, l, g, p, m = match(text, '^(%d*),(%d*),(%d*),(%d*),?(%d*)$')
  return c, l, g, p, m
end

-- Settings in force: capacity, lease, grace, paused, attempts, and which are overridden.
local function read_settings(text, capacity, lease_ms, grace_ms, paused, max_attempts)
  if not text then
    return capacity, lease_ms, grace_ms, paused, max_attempts, 0
  end
  local c, l, g, p, m = parse_settings(text)
  if not c then
    error(UNREADABLE_SETTINGS, 0)
  end
  local set = (c ~= '' and 1 or 0) + (l ~= '' and 2 or 0) + (g ~= '' and 4 or 0)
  set = set + (p ~= '' and 8 or 0) + (m ~= '' and 16 or 0)
  c, l, g, p, m = tonumber(c), tonumber(l), tonumber(g), tonumber(p), tonumber(m)
  local in_range = (c or 0) <= 1000000 and (l or 100) >= 100 and (l or 0) <= 86400000 and (g or 0) <= 2592000000
  if not in_range or (p or 0) > 1 or (m or 1) < 1 or (m or 1) > 1000 then
    error(UNREADABLE_SETTINGS, 0)
  end
  return c or capacity, l or lease_ms, g or grace_ms, p or paused, m or max_attempts, set
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
  return { state = state, token = token, grant = grant, expire = expire, slot_end = slot_end, attempt = 0 }
end

local function write_task(key, state, task, forget, now, rest)
  local record = format(
    '%s %.0f %.0f %.0f %.0f %.0f',
    state, task.token, task.grant, task.expire, task.slot_end, forget
  )
  call('SET', key, record .. rest, 'PX', format('%.0f', math.ceil((forget - now) / 1000)))
end
