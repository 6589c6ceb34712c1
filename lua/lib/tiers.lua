-- Tiers of a rule, and the steps of an evaluation.
--
-- @include check meter
--
-- Enough entries for the tiers of a few rules.
local TIERS_NOTICES_MAX = 32

local function tiers_read(text)
  if text == '' then
    return METER_NONE
  end
  local tiers, at = {}, 1
  while at <= #text do
    local tier, durations = {}, nil
    tier.above, tier.action, durations, at = scan('<I4BB', text, at)
    for i = 1, durations do
      tier[i], at = scan('<I8', text, at)
    end
    tiers[#tiers + 1] = tier
  end
  return tiers
end

-- Returns the highest tier whose `above` is exceeded, 0 for none.
local function tiers_reached(tiers, count)
  for level = #tiers, 1, -1 do
    if count > tiers[level].above then
      return level
    end
  end
  return 0
end

-- Returns the longest wait of limits `from` to `to` in µs: a whole window if the cost exceeds
-- the ceiling, since waiting does not help then.
local function tiers_longest_wait(limits, from, to, cost, now)
  local longest = 0
  for i = from, to do
    local limit = limits[i]
    longest = max(longest, cost > limit.ceiling and limit.window or limit.algorithm.wait(limit, cost, now))
  end
  return longest
end

-- Returns CHECK_CROSSED if this call is the first of its window to reach the level, else 0. Stores
-- a notice for the level and for those below it.
local function tiers_cross(meter, tiers, level, peek, now)
  if peek then
    return 0
  end
  if meter.notices == METER_NONE then
    meter.notices = {}
  end
  local noticed = {}
  for i = 1, #meter.notices do
    noticed[meter.notices[i].above] = true
  end
  if noticed[tiers[level].above] then
    return 0
  end
  for i = 1, level do
    if not noticed[tiers[i].above] then
      if #meter.notices >= TIERS_NOTICES_MAX then
        table.remove(meter.notices, 1)
      end
      meter.notices[#meter.notices + 1] = { above = tiers[i].above, at = now }
    end
  end
  meter.changed = true
  return CHECK_CROSSED
end

-- Counts the call on the first `number` limits.
local function tiers_spend(meter, number, cost, peek, now)
  if peek then
    return
  end
  for i = 1, number do
    local limit = meter.limits[i]
    limit.algorithm.spend(limit, cost, now)
  end
  meter.changed = true
end
