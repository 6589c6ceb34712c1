-- Format of a pool's keys. All times are in microseconds.
--
-- settings  "capacity,lease_ms,grace_ms,paused,max_attempts", empty where not overridden
-- token     lib/token.lua
-- task:…    state (a letter), token, grant, expire, slot_end, forget (u64 each, little-endian).
--           States: L leased; l leased and disclosed (lib/lease.lua); D done, then outcome (a
--           digit) and result; E evicted, then the reason
-- leases    zset by slot_end of device\31task\31, token, grant, expire (u64), attempt (u32,
--           0 where the task was not queued)
--
-- A lease holds its slot until slot_end: expire plus the grace. A record counts as absent from
-- forget on.
local call, format, match, sub = redis.call, string.format, string.match, string.sub
local pack, scan, max = struct.pack, struct.unpack, math.max

-- Times and tokens stay below 2^52, the year 2112, so that their sums are exact.
local TIME_MAX = 4503599627370495
local UNREADABLE_TASK = 'CORRUPT record of the task; EvictTask deletes it'
local UNREADABLE_SETTINGS = 'CORRUPT settings of the pool; ConfigurePool with reset repairs it'

-- Formats a whole number. `%d` costs a third of `%.0f`, but some builds of Lua cut it to 32 bits.
-- Numbers recur within a batch: results are cached.
local WHOLE, written = format('%d', TIME_MAX) == '4503599627370495' and '%d' or '%.0f', {}
local function digits(number)
  local known = written[number]
  if not known then
    known = format(WHOLE, number)
    written[number] = known
  end
  return known
end

-- Returns the stored strings of keys, false for absent ones. Fails if one has another type.
local function read(...)
  local texts, there = call('MGET', ...), 0
  for i = 1, #texts do
    there = there + (texts[i] and 1 or 0)
  end
  -- MGET reports a value of another type as absent; EXISTS does not.
  if there < #texts and call('EXISTS', ...) > there then
    error('CORRUPT value of a wrong type; ConfigurePool with reset or EvictTask repairs it', 0)
  end
  return texts
end

local function parse_settings(text)
  local c, l, g, p, m = match(text, '^(%d*),(%d*),(%d*),(%d*),?(%d*)$')
  return c, l, g, p, m
end

-- Returns the settings in force (capacity, lease, grace, paused, attempts) and the bits of the
-- overridden ones: 1, 2, 4, 8, 16.
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

local RECORD_HEAD, RECORD_FORM = 41, '<c1I8I8I8I8I8'
local STATES = { L = 'L', l = 'L', D = 'D', E = 'E' }

-- Returns the task record; nil if there is none or it is forgotten. `lease` is the end of its
-- member in `leases`.
local function read_task(record, now)
  if not record then
    return nil
  elseif #record < RECORD_HEAD then
    error(UNREADABLE_TASK, 0)
  end
  local state, token, grant, expire, slot_end, forget = scan(RECORD_FORM, record)
  if not STATES[state] or max(token, grant, expire, slot_end, forget) > TIME_MAX then
    error(UNREADABLE_TASK, 0)
  elseif forget <= now then
    return nil
  end
  return {
    state = STATES[state], is_told = state == 'l', attempt = 0,
    token = token, grant = grant, expire = expire, slot_end = slot_end,
    lease = '\31' .. sub(record, 2, 25) .. '\0\0\0\0',
  }
end

-- Encodes a task record; `rest` is the data of its state.
local function task_record(state, task, forget, rest)
  return pack(RECORD_FORM, state, task.token, task.grant, task.expire, task.slot_end, forget) .. rest
end

local function write_task(key, state, task, forget, now, rest)
  call('SET', key, task_record(state, task, forget, rest), 'PX', digits(math.ceil((forget - now) / 1000)))
end
