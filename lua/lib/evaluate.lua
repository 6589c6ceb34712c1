-- Evaluates one check; twin of crates/core/src/rate/check/evaluation.rs. With `peek` nothing changes.
--
-- @include ban check limits tiers

-- Evaluates a key that is not banned and reaches no ban tier. Returns verdict, flags, wait (µs).
local function evaluate_unbanned(meter, tiers, level, cost, peek, now)
  local limits, flags = meter.limits, 0
  local others = tiers_longest_wait(limits, 2, #limits, cost, now)
  local wait = tiers_longest_wait(limits, 1, 1, cost, now)
  if others > 0 then
    return CHECK_THROTTLE, 0, max(others, wait)
  elseif wait > 0 then
    -- A throttled call counts if there is a stricter tier, because otherwise the count would never
    -- reach that tier. The last tier is the strictest.
    if level < #tiers and tiers[#tiers].action ~= CHECK_WARN and cost <= limits[1].ceiling then
      tiers_spend(meter, 1, cost, peek, now)
    end
    if level > 0 and tiers[level].action == CHECK_THROTTLE then
      flags = tiers_cross(meter, tiers, level, peek, now)
    end
    return CHECK_THROTTLE, flags, tiers_longest_wait(limits, 1, 1, cost, now)
  end
  tiers_spend(meter, #limits, cost, peek, now)
  if level > 0 then
    return CHECK_WARN, tiers_cross(meter, tiers, level, peek, now), 0
  end
  return CHECK_ALLOW, 0, 0
end

-- Returns a ban by a tier, with the duration of this strike.
local function evaluate_ban(tier, known, memory, now)
  local strikes = min((known and known.strikes or 0) + 1, BAN_STRIKES_MAX)
  local ban = { strikes = strikes, reason = format('above %.0f', tier.above), actor = '' }
  ban.ends = now + tier[min(strikes, #tier)]
  ban.forget = ban.ends + memory
  return ban
end

-- Evaluates a check; `known` is the key's last ban. Returns verdict, flags, wait (µs), ban in
-- force, whether this call set it, the level reached, and the count including this call.
local function evaluate(meter, tiers, known, memory, cost, peek, now)
  local limits = meter.limits
  local level, total = 0, nil
  if #tiers > 0 then
    total = limits[1].algorithm.count(limits[1]) + cost
    level = tiers_reached(tiers, total)
  end
  if known and known.ends > now then
    return CHECK_BAN, 0, max(known.ends - now, tiers_longest_wait(limits, 1, #limits, cost, now)), known, false
  elseif level > 0 and tiers[level].action == CHECK_BAN then
    local ban = evaluate_ban(tiers[level], known, memory, now)
    local wait = max(ban.ends - now, tiers_longest_wait(limits, 1, #limits, cost, now))
    return CHECK_BAN, tiers_cross(meter, tiers, level, peek, now), wait, not peek and ban, not peek, level, total
  end
  local verdict, flags, wait = evaluate_unbanned(meter, tiers, level, cost, peek, now)
  return verdict, flags, wait, nil, false, level, total
end

-- Returns the reply as a table.
local function evaluate_answer(verdict, flags, wait, ban, limits, now)
  local answer = { verdict, flags, ceil(wait / 1000) }
  if ban then
    answer[2] = flags + CHECK_BAN_FOLLOWS
    answer[4], answer[5], answer[6], answer[7] = ban.ends, ban.strikes, ban.reason, ban.actor
  end
  limits_append_usage(answer, limits, now)
  return answer
end
