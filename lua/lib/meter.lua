-- What a key has used of the limits of a rule.
--
-- rule     limits: name (ends with 0), kind u8, ceiling u32, window u64,
--          extra u64 (see the kinds)
local NAMES_MAX = 32
local UNREADABLE = 'CORRUPT usage of the key; ResetRate repairs it'
local COUNT_MAX = 4294967295

-- By kind: load(limit, text, at, size, now), wait(limit, cost, now),
-- spend(limit, cost, now), count(limit), reset(limit, now), dump(limit, now),
-- since(limit, now). Their twins are the structs of src/rate/usage.rs.
local algorithms = {}

local function read_rule(rule)
  local limits, at = {}, 1
  while at <= #rule do
    local name, kind, ceiling, window, extra
    name, kind, ceiling, window, extra, at = scan('<sBI4I8I8', rule, at)
    limits[#limits + 1] = {
      name = name, kind = kind, ceiling = ceiling, window = window, extra = extra, algorithm = algorithms[kind],
    }
  end
  return limits
end

-- The notices of a counter's present window.
local function read_notices(text, number, at, since, now)
  local notices = {}
  for _ = 1, number do
    local above, noticed
    above, noticed, at = scan('<I4I8', text, at)
    if noticed >= since then
      -- A clock that was set back must not keep notices back for longer.
      notices[#notices + 1] = { above = above, at = min(noticed, now) }
    end
  end
  return notices
end

-- The limits of a rule and what is used of each; the counters of other names.
local function read_meter(rule, key, now)
  local text = call('GET', key)
  local limits = read_rule(rule)
  local meter = { text = text, limits = limits, others = {}, notices = {}, changed = false }
  local function visit(name, kind, forget, notices, from, usage, size, next)
    for i = 1, #limits do
      local limit = limits[i]
      if limit.name == name then
        if limit.kind == kind then
          limit.algorithm.load(limit, text, usage, size, now)
          limit.loaded = true
          -- The limit's numbers have changed, or the clock has been set back.
          -- What the load made of it has to be put down, or a key that is only
          -- ever refused would be held up for ever by what is made anew of it.
          -- A longer window must not lose what a shorter one has counted.
          local lasts = limit.algorithm.reset(limit, now)
          meter.changed = meter.changed or limit.moved or now + lasts > forget
        end
        if i == 1 and notices > 0 then
          meter.noticed = { notices, usage + size }
        end
        return
      end
    end
    meter.others[#meter.others + 1] = { forget = forget, from = from, next = next }
  end
  if text then
    each_counter(text, now, visit)
  end
  for i = 1, #limits do
    local limit = limits[i]
    if not limit.loaded then
      limit.algorithm.load(limit, nil, nil, nil, now)
    end
  end
  if meter.noticed then
    local since = limits[1].algorithm.since(limits[1], now)
    meter.notices = read_notices(text, meter.noticed[1], meter.noticed[2], since, now)
  end
  return meter
end

local function write_meter(key, meter, now)
  local parts, left = {}, 0
  for i = 1, #meter.others do
    local counter = meter.others[i]
    parts[#parts + 1] = string.sub(meter.text, counter.from, counter.next - 1)
    left = max(left, counter.forget - now)
  end
  for i = 1, #meter.limits do
    local limit = meter.limits[i]
    local notices = i == 1 and #meter.notices or 0
    local lasts = max(limit.algorithm.reset(limit, now), notices > 0 and limit.window or 0)
    if lasts > 0 then
      local usage = limit.algorithm.dump(limit, now)
      parts[#parts + 1] = pack('<sBI8BI2', limit.name, limit.kind, now + lasts, notices, #usage)
      parts[#parts + 1] = usage
      for n = 1, notices do
        parts[#parts + 1] = pack('<I4I8', meter.notices[n].above, meter.notices[n].at)
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
