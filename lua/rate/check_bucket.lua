-- Counts calls of keys against a token bucket: the plain form of rate/check.lua.
--
-- Debts are in units of 1/max µs (lib/token_bucket.lua): a call of cost 1 adds `window` units, and
-- `max` units drain in a µs. A limit has a plain form if its burst is at most 2^52 units, so that
-- sums of two debts are exact.
--
-- @include check plain plain_check
--
-- keys[1] usage_key string: the key's counter.
-- keys[2] ban_key string: the key's ban.
-- argv[1] limit packed (lib/limits.lua), kind 4, max above 0.
-- argv[2] cost 0..4294967295; 0 evaluates a cost of 1 and writes nothing.
-- Shared argv[1..1]
-- Plain 5
--
-- Returns {verdict, 0, retry_after ms or 0, count, reset_after ms}.
--         {255, 0, 0, 0, 0}: declined, because the check is not plain.
-- Writes usage, TTL: until it has drained, or up to a second and an eighth of that time longer.
-- Cost O(1): 7 µs.
local VALUE, VALUE_BYTES = 'I8BI2I8I4I4I8I8', 43 -- of a counter (lib/counters.lua), after name and kind
local head, form, ceiling, window, rate, most
-- The last TTL in ms, and as text. Many items use the same, because formatting costs more than
-- keeping a key for longer.
local ttl_ms, ttl = 0, nil

local function open(limit)
  local name, kind
  name, kind, ceiling, window, rate = scan('<sBI4I8I8', limit)
  head, most = pack('<sB', name, kind), ceiling * window
  form = '<c' .. #head .. VALUE
end

-- Returns the debt; nil if the usage is not plain.
local function stored_debt(text)
  if not text then
    return 0
  elseif #text ~= #head + VALUE_BYTES then
    return nil
  end
  local found, forget, notices, size, tat, part, of_rate, length, seen = scan(form, text)
  local is_same = found == head and notices == 0 and size == 32 and of_rate == rate and length == window
  if not is_same or part >= rate or seen > now or forget ~= tat + (part > 0 and 1 or 0) then
    return nil
  end
  local debt = tat < now and 0 or (tat - now) * rate + part
  return debt <= most and debt or nil
end

local function set_debt(key, text, debt)
  local whole, left = floor(debt / rate), ceil(debt / rate)
  local left_ms = ceil(left / 1000)
  if left_ms > ttl_ms or ttl_ms > 2 * left_ms + 1000 then
    ttl_ms = left_ms + floor(left_ms / 8) + 1000
    ttl = format('%d', ttl_ms)
  end
  local value = pack(form, head, now + left, 0, 32, now + whole, debt - whole * rate, rate, window, now)
  return plain_check_set(key, text, value, ttl)
end

local function debt_reply(verdict, wait, debt)
  return plain_check_reply(verdict, wait, min(ceil(debt / window), ceiling), ceil(debt / rate))
end

local function check(key, text, cost, times)
  local debt = stored_debt(text)
  if not debt then
    return false
  end
  local adds = max(cost, 1) * window
  local passed = debt + adds > most and 0 or min(floor((most - debt) / adds), times)
  local wait = max(cost, 1) > ceiling and window or ceil((debt + adds * (passed + 1) - most) / rate)
  if cost == 0 or passed == 0 then
    adds, passed = 0, passed > 0 and times or 0
    if not plain_check_is_absent(key, text) then
      return false
    end
  elseif not set_debt(key, text, debt + adds * passed) then
    return false
  end
  for _ = 1, passed do
    debt = debt + adds
    plain_reply(debt_reply(CHECK_ALLOW, 0, debt), 1)
  end
  if passed < times then
    plain_reply(debt_reply(CHECK_THROTTLE, wait, debt), times - passed)
  end
  return true
end

local function decide(_, first, column, argument, number, items)
  open(ARGV[argument + 1])
  plain_check_row(first, first + column, number, items, check)
end
