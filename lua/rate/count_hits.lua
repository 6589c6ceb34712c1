-- Counts hits of a key, even if they exceed its limit.
--
-- @include ban check evaluate limits meter rate_keys usage
--
-- keys[1] usage_key string: the key's counters.
-- keys[2] ban_key string: the key's ban.
-- argv[1] limits packed (lib/limits.lua), 1.
-- argv[2] cost 0..4294967295; 0 evaluates a cost of 1 and writes nothing.
-- Shared argv[1..1]
--
-- Returns {verdict, flags, retry_after ms or 0, (ends, strikes, reason, actor) with flag 4,
--          count, reset_after ms}, as rate/check.lua.
--         {4}: the key has usage under too many limit names.
-- Writes usage, TTL: until all of it has expired.
-- Cost O(1): 8 µs; a sliding window O(122): up to 55 µs; 32 limit names 130 µs more.

local function read_shared(_, argv, _, first, last)
  rate_keys_prefetch(first, last)
  return limits_read(argv[1])
end

-- Each item writes its own keys.
local function write() end

local function decide(limits, now, usage_key, ban_key, cost)
  local peek = cost == '0'
  cost = max(tonumber(cost), 1)
  local readable, meter = pcall(meter_read, limits, usage_key, now)
  if not readable then
    error(USAGE_UNREADABLE, 0)
  elseif #meter.others + 1 > METER_NAMES_MAX then
    return { CHECK_TOO_MANY_NAMES }
  end
  local known = ban_read(ban_key, now)
  local verdict, flags, wait, ban = evaluate(meter, METER_NONE, known, 0, cost, peek, now)
  local answer = evaluate_answer(verdict, flags, wait, ban, limits, now)
  if meter.changed and not peek then
    meter_write(usage_key, meter, now)
  end
  return answer
end
