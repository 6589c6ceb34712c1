-- What a key has used: a string of counters, one for each name of a limit.
--
-- counter  name (ends with 0), kind u8, forget u64, notices u8, size u16, usage
--          (size bytes, by kind), notices (above u32, at u64)
-- rule     limits: name (ends with 0), kind u8, ceiling u32, window u64,
--          extra u64 (see the kinds)
--
-- Kinds: 1 fixed window, 2 calendar window, 3 sliding window, 4 token bucket.
-- A counter is as if it had never been from `forget` on.
local NAMES_MAX = 32
local COUNT_MAX = 4294967295

-- By kind: load(limit, text, at, size, now), wait(limit, cost, now),
-- spend(limit, cost, now), count(limit), reset(limit, now), dump(limit, now),
-- since(limit, now). Their twins are the structs of src/rate/usage.rs.
local algorithms = {}

-- The counters that still matter, by name, and how many.
local function read_counters(text, now)
  local counters, number, at = {}, 0, 1
  while at <= #text do
    local name, kind, forget, notices, size, usage = scan('<sBI8BI2', text, at)
    local next = usage + size + notices * 12
    assert(forget <= TIME_MAX and next <= #text + 1)
    if forget > now then
      number = number + 1
      counters[name] = {
        kind = kind, forget = forget, notices = notices, from = at, usage = usage, size = size, next = next,
      }
    end
    at = next
  end
  return counters, number
end

-- The notices of a counter's present window.
local function read_notices(text, counter, since)
  local notices, at = {}, counter.usage + counter.size
  for _ = 1, counter.notices do
    local above, noticed
    above, noticed, at = scan('<I4I8', text, at)
    if noticed >= since then
      notices[#notices + 1] = { above = above, at = noticed }
    end
  end
  return notices
end

local function read_meter(rule, text, now)
  local counters, number = {}, 0
  if text then
    counters, number = read_counters(text, now)
  end
  local meter = { text = text, others = counters, names = number, limits = {}, notices = {} }
  local at = 1
  while at <= #rule do
    local limit = {}
    limit.name, limit.kind, limit.ceiling, limit.window, limit.extra, at = scan('<sBI4I8I8', rule, at)
    limit.algorithm = algorithms[limit.kind]
    local counter = counters[limit.name]
    -- A load sets `ahead` where the clock has been set back since: what it made
    -- of that has to be put down, or a key that is only ever refused would be
    -- held up until the clock has caught up.
    local same = counter and counter.kind == limit.kind
    limit.algorithm.load(limit, text, same and counter.usage, same and counter.size, now)
    meter.changed = meter.changed or limit.ahead
    if not counter then
      meter.names = meter.names + 1
    elseif #meter.limits == 0 and counter.notices > 0 then
      meter.notices = read_notices(text, counter, limit.algorithm.since(limit, now))
    end
    counters[limit.name] = nil
    meter.limits[#meter.limits + 1] = limit
  end
  return meter
end

local function write_meter(key, meter, now)
  local parts, left = {}, 0
  for _, counter in pairs(meter.others) do
    parts[#parts + 1] = string.sub(meter.text, counter.from, counter.next - 1)
    left = max(left, counter.forget - now)
  end
  for i, limit in ipairs(meter.limits) do
    local notices = i == 1 and meter.notices or {}
    local lasts = max(limit.algorithm.reset(limit, now), #notices > 0 and limit.window or 0)
    if lasts > 0 then
      local usage = limit.algorithm.dump(limit, now)
      parts[#parts + 1] = pack('<sBI8BI2', limit.name, limit.kind, now + lasts, #notices, #usage) .. usage
      for _, notice in ipairs(notices) do
        parts[#parts + 1] = pack('<I4I8', notice.above, notice.at)
      end
      left = max(left, lasts)
    end
  end
  if left > 0 then
    set(key, table.concat(parts), left)
  else
    call('DEL', key)
  end
end
