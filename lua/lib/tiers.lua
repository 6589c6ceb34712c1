-- The levels of a rule, and how a check is judged by them; the twin of `Check` in
-- src/rate/check.rs.
local WARN, THROTTLE, BAN = 1, 2, 3

local function read_tiers(text)
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

-- The level that a count has reached, 0 for none.
local function reached(tiers, count)
  for level = #tiers, 1, -1 do
    if count > tiers[level].above then
      return level
    end
  end
  return 0
end

-- The longest that the limits from one to another wait; the window's length
-- where waiting does not help.
local function longest_wait(limits, from, to, cost, now)
  local longest = 0
  for i = from, to do
    local limit = limits[i]
    longest = max(longest, cost > limit.ceiling and limit.window or limit.algorithm.wait(limit, cost, now))
  end
  return longest
end

-- Whether this call is the first of its window on a level; the levels below are
-- passed with it.
local function cross(meter, tiers, level, now)
  local noticed = {}
  for i = 1, #meter.notices do
    noticed[meter.notices[i].above] = true
  end
  if noticed[tiers[level].above] then
    return 0
  end
  for i = 1, level do
    if not noticed[tiers[i].above] then
      meter.notices[#meter.notices + 1] = { above = tiers[i].above, at = now }
    end
  end
  meter.changed = true
  return CROSSED
end

-- Counts the call on the first so many limits.
local function spend(meter, number, cost, now)
  for i = 1, number do
    local limit = meter.limits[i]
    limit.algorithm.spend(limit, cost, now)
  end
  meter.changed = true
end

-- Judges a key that is not banned, and whose count reaches no ban.
local function judge(meter, tiers, level, cost, look, now)
  local limits, flags = meter.limits, 0
  local others = longest_wait(limits, 2, #limits, cost, now)
  local wait = longest_wait(limits, 1, 1, cost, now)
  if others > 0 then
    return THROTTLE, 0, max(others, wait)
  elseif wait > 0 then
    if not look then
      -- Only so does a count that is throttled ever reach a further tier; the
      -- last one is the least mild.
      if level < #tiers and tiers[#tiers].action ~= WARN then
        spend(meter, 1, cost, now)
      end
      if level > 0 and tiers[level].action == THROTTLE then
        flags = cross(meter, tiers, level, now)
      end
    end
    return THROTTLE, flags, longest_wait(limits, 1, 1, cost, now)
  end
  if not look then
    spend(meter, #limits, cost, now)
    flags = level > 0 and cross(meter, tiers, level, now) or 0
  end
  return level > 0 and WARN or 0, flags, 0
end
