-- Counts calls of keys against a sliding window: the plain form of rate/check.lua.
--
-- @include check plain plain_check sliding_window usage
--
-- keys[1] usage_key string: the key's counter.
-- keys[2] ban_key string: the key's ban.
-- argv[1] limit packed (lib/limits.lua), kind 3.
-- argv[2] cost 0..4294967295; 0 evaluates a cost of 1 and writes nothing.
-- Shared argv[1..1]
-- Plain 5
--
-- Returns {verdict, 0, retry_after ms or 0, count, reset_after ms}.
--         {255, 0, 0, 0, 0}: declined, because the check is not plain.
-- Writes usage, TTL: until its last bucket no longer counts.
-- Cost O(buckets), at most 122: up to 55 µs.
local limit, head = {}, nil

local function open(packed)
  local name, kind
  name, kind, limit.ceiling, limit.window, limit.extra = scan('<sBI4I8I8', packed)
  head = pack('<sB', name, kind)
end

-- Loads the usage. Returns false if it is not plain.
local function load(text)
  limit.moved = false
  if not text then
    sliding_window.load(limit)
    return true
  elseif sub(text, 1, #head) ~= head or #text < #head + 11 then
    return false
  end
  local forget, notices, size, usage = scan('<I8BI2', text, #head + 1)
  local fits = usage + size == #text + 1 and size >= sliding_window.least
  if notices ~= 0 or not fits or (size - sliding_window.least) % sliding_window.each ~= 0 or forget <= now then
    return false
  end
  sliding_window.load(limit, text, usage, size, now)
  return not limit.moved and now + sliding_window.reset(limit, now) <= forget
end

local function check(key, text, cost, times)
  local adds = max(cost, 1)
  if not load(text) or limit.total + adds * times > USAGE_COUNT_MAX then
    return false
  end
  local count, ceiling = limit.total, limit.ceiling
  local passed = count + adds > ceiling and 0 or min(floor((ceiling - count) / adds), times)
  if cost == 0 or passed == 0 then
    adds, passed = 0, passed > 0 and times or 0
    if not plain_check_is_absent(key, text) then
      return false
    end
  else
    sliding_window.spend(limit, adds * passed, now)
    local ttl = format('%d', ceil(sliding_window.reset(limit, now) / 1000))
    local usage = sliding_window.dump(limit)
    local forget = now + sliding_window.reset(limit, now)
    if not plain_check_set(key, text, head .. pack('<I8BI2', forget, 0, #usage) .. usage, ttl) then
      return false
    end
  end
  local reset_ms = ceil(sliding_window.reset(limit, now) / 1000)
  for i = #plain_replies + 1, #plain_replies + passed do
    count = count + adds
    plain_replies[i] = pack(PLAIN_CHECK_REPLY, CHECK_ALLOW, 0, 0, count, reset_ms)
  end
  if passed < times then
    local wait = max(cost, 1) > ceiling and limit.window or sliding_window.wait(limit, max(cost, 1), now)
    plain_reply(pack(PLAIN_CHECK_REPLY, CHECK_THROTTLE, 0, ceil(wait / 1000), count, reset_ms), times - passed)
  end
  return true
end

local function decide(_, first, column, argument, number, items)
  open(ARGV[argument + 1])
  plain_check_row(first, first + column, number, items, check)
end
