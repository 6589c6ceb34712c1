-- Usage of a rule's limits by one key.
--
-- @include counters prefetch
local METER_NAMES_MAX = 32
local METER_NONE = {}

-- Decodes the notices of the current window; earlier ones are dropped.
local function meter_read_notices(text, number, at, since, now)
  local notices = {}
  for _ = 1, number do
    local above, noticed
    above, noticed, at = scan('<I4I8', text, at)
    if noticed >= since then
      -- A clock that was set back must not suppress notices for longer.
      notices[#notices + 1] = { above = above, at = min(noticed, now) }
    end
  end
  return notices
end

-- Returns the limit with this name, nil if there is none.
local function meter_find(limits, name)
  for i = 1, #limits do
    if limits[i].name == name then
      return limits[i]
    end
  end
end

-- Loads the usage of each limit into the limit. Returns the meter: the stored text, the limits, the
-- live counters of other names, and the notices of the first limit.
local function meter_read(limits, key, now)
  local text = prefetch_get(key) or ''
  for i = 1, #limits do
    limits[i].loaded, limits[i].moved = false, false
  end
  local meter = { text = text, limits = limits, others = METER_NONE, notices = METER_NONE, changed = false }
  local at, noticed = 1, nil
  while at <= #text do
    local name, kind, forget, notices, size, usage, next = counters_read(text, at)
    local limit = forget > now and meter_find(limits, name)
    if limit then
      if limit.kind == kind then
        limit.algorithm.load(limit, text, usage, size, now)
        limit.loaded = true
        -- The load has converted the usage, because the limit's numbers or the clock changed: write
        -- it. Otherwise each refused call of the key would convert it again, and the usage would
        -- never drain. A longer window must also keep the counts of a shorter one.
        if limit.moved or now + limit.algorithm.reset(limit, now) > forget then
          meter.changed = true
        end
      end
      if notices > 0 and limit == limits[1] then
        noticed = { notices, usage + size }
      end
    elseif forget > now then
      meter.others = meter.others == METER_NONE and {} or meter.others
      meter.others[#meter.others + 1] = { forget = forget, from = at, next = next }
    end
    at = next
  end
  for i = 1, #limits do
    if not limits[i].loaded then
      limits[i].algorithm.load(limits[i], nil, nil, nil, now)
    end
  end
  if noticed then
    local since = limits[1].algorithm.since(limits[1], now)
    meter.notices = meter_read_notices(text, noticed[1], noticed[2], since, now)
  end
  return meter
end

-- Returns all live counters as text, and the longest time left of them in µs; nil if there is none.
local function meter_text(meter, now)
  local parts, left = {}, 0
  for i = 1, #meter.others do
    local counter = meter.others[i]
    parts[i] = string.sub(meter.text, counter.from, counter.next - 1)
    left = max(left, counter.forget - now)
  end
  for i = 1, #meter.limits do
    local limit = meter.limits[i]
    local notices = i == 1 and meter.notices or METER_NONE
    local lasts = max(limit.algorithm.reset(limit, now), #notices > 0 and limit.window or 0)
    if lasts > 0 then
      local usage = limit.algorithm.dump(limit, now)
      parts[#parts + 1] = pack('<sBI8BI2', limit.name, limit.kind, now + lasts, #notices, #usage) .. usage
      for n = 1, #notices do
        parts[#parts + 1] = pack('<I4I8', notices[n].above, notices[n].at)
      end
      left = max(left, lasts)
    end
  end
  if left > 0 then
    return #parts == 1 and parts[1] or table.concat(parts), left
  end
end

-- Writes all live counters; drops the key if there is none.
local function meter_write(key, meter, now)
  prefetch_put(key, meter_text(meter, now))
end
