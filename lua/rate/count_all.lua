-- Counts the hits of several keys in one step: all of them, or none if the request is refused.
--
-- @include ban check evaluate limits meter prefetch usage
--
-- keys[1] usage_key string: the key's counters.
-- keys[2] ban_key string: the key's ban.
-- argv[1] limits packed (lib/limits.lua), 1.
-- argv[2] cost 0..4294967295; 0 evaluates a cost of 1 and writes nothing.
-- argv[3] over_from 0..4294967296: the smallest count that exceeds the limit.
-- argv[4] enforcement 0 refuses nothing, 1 refuses the request if exceeded, 2 refuses it if all
--         limits with 2 are exceeded.
-- Repeated: an item has these keys and arguments for each counter, and is alone in its call. The
-- same key may occur again: later counters see the hits of earlier ones.
--
-- Returns {0, then of each counter exceeded 0 or 1, count, reset_after ms}. The counts of a refused
--         request are those without its hits.
--         {1}: a key has usage under too many limit names.
-- Writes usage, TTL: until all of it has expired.
-- Cost O(counters), at most 32: 20 µs each; a sliding window 60 µs.

local COUNT_ALL_DECIDED, COUNT_ALL_TOO_MANY_NAMES = 0, 1
local ENFORCED, QUOTA = '1', '2'

-- Returns one counter.
local function read(keys, argv, now)
  return {
    usage_key = keys[1], ban = ban_read(keys[2], now), limits = limits_read(argv[1]),
    cost = tonumber(argv[2]), over_from = tonumber(argv[3]), enforcement = argv[4],
  }
end

-- Counts a hit in memory, so that later counters of the key see it. Returns false if the key has
-- usage under too many limit names.
local function spend(count, now)
  local limit, peek = count.limits[1], count.cost == 0
  local readable, meter = pcall(meter_read, count.limits, count.usage_key, now)
  if not readable then
    error(USAGE_UNREADABLE, 0)
  elseif #meter.others + 1 > METER_NAMES_MAX then
    return false
  end
  count.before = meter.text ~= '' and meter.text
  local verdict = evaluate(meter, METER_NONE, count.ban, 0, max(count.cost, 1), peek, now)
  count.exceeded = verdict > CHECK_WARN or limit.algorithm.count(limit) >= count.over_from
  count.changed = meter.changed and not peek
  if count.changed then
    count.text, count.left = meter_text(meter, now)
    prefetch_texts[count.usage_key] = count.text or false
  end
  return true
end

local function is_refused(counts)
  local quotas, exceeded = 0, 0
  for i = 1, #counts do
    local count = counts[i]
    if count.enforcement == ENFORCED and count.exceeded then
      return true
    elseif count.enforcement == QUOTA then
      quotas, exceeded = quotas + 1, exceeded + (count.exceeded and 1 or 0)
    end
  end
  return quotas > 0 and quotas == exceeded
end

local function decide(keys, argv, now)
  prefetch(keys)
  local counts = {}
  for i = 1, #keys / 2 do
    counts[i] = read({ unpack(keys, 2 * i - 1, 2 * i) }, { unpack(argv, 4 * i - 3, 4 * i) }, now)
    if not spend(counts[i], now) then
      return { COUNT_ALL_TOO_MANY_NAMES }
    end
  end
  local refused = is_refused(counts)
  for i = refused and #counts or 0, 1, -1 do
    prefetch_texts[counts[i].usage_key] = counts[i].before
  end
  local answer = { COUNT_ALL_DECIDED }
  for i = 1, #counts do
    local count = counts[i]
    local limit = count.limits[1]
    if refused then
      -- Converted usage is stored even if the request is refused, as in rate/check.lua.
      local meter = meter_read(count.limits, count.usage_key, now)
      if meter.changed and count.cost > 0 then
        meter_write(count.usage_key, meter, now)
      end
    elseif count.changed then
      prefetch_put(count.usage_key, count.text, count.left)
    end
    answer[#answer + 1] = count.exceeded and 1 or 0
    answer[#answer + 1] = limit.algorithm.count(limit)
    answer[#answer + 1] = ceil(limit.algorithm.reset(limit, now) / 1000)
  end
  return answer
end
