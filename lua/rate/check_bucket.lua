-- Counts calls of keys against a token bucket: the plain form of rate/check.lua.
--
-- A call of cost 1 adds window/max µs to the debt (lib/token_bucket.lua). Both are divided by their
-- greatest common divisor: a call adds `interval` units, and `drain` units drain in a µs. A limit has
-- a plain form if its burst is at most 2^52 units, so that sums of two debts are exact.
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
-- Writes usage, TTL: a second more than twice the time until it has drained. Most calls keep it, because
--        a new TTL costs a fifth of a check.
-- Cost O(1): 7 µs.
local VALUE, VALUE_BYTES = 'I8BI2I8I4I4I8I8', 43 -- of a counter (lib/counters.lua), after name and kind
local head, form, size, ceiling, window, rate, divisor, interval, drain, most

local function open(limit)
  local name, kind
  name, kind, ceiling, window, rate = scan('<sBI4I8I8', limit)
  local rest = rate
  divisor = window
  while rest > 0 do -- Euclid's algorithm
    divisor, rest = rest, divisor % rest
  end
  interval, drain = window / divisor, rate / divisor
  head, most = pack('<sB', name, kind), ceiling * interval
  form, size = '<c' .. #head .. VALUE, #head + VALUE_BYTES
end

-- Returns the debt, and until when its key lives; nil if the usage is not plain.
local function stored_debt(text)
  if not text then
    return 0, 0
  elseif #text ~= size then
    return nil
  end
  local found, forget, notices, bytes, tat, part, of_rate, length, seen = scan(form, text)
  local is_same = found == head and notices == 0 and bytes == 32 and of_rate == rate and length == window
  if not is_same or part >= rate or part % divisor > 0 or seen > now or forget > TIME_MAX then
    return nil
  end
  local debt = tat < now and 0 or (tat - now) * drain + part / divisor
  return debt <= most and debt or nil, forget
end

-- Stores a debt. Most calls find a key that lives long enough, and change the value in place.
local function set_debt(key, text, debt, lives)
  local left, rest = ceil(debt / drain), debt % drain
  local whole, part = now + (debt - rest) / drain, rest * divisor
  if now + left <= lives then
    return call('SETRANGE', key, size - 32, pack('<I8I4I4I8I8', whole, part, rate, window, now))
  end
  lives = now + 2 * left + 1000000
  local value = pack(form, head, lives, 0, 32, whole, part, rate, window, now)
  return plain_check_set(key, text, value, format('%d', ceil((lives - now) / 1000)))
end

local function debt_reply(verdict, wait, debt)
  local count, reset = ceil(debt / interval), ceil(ceil(debt / drain) / 1000)
  return pack(PLAIN_CHECK_REPLY, verdict, 0, ceil(wait / 1000), count < ceiling and count or ceiling, reset)
end

local function check(key, text, cost, times)
  local debt, lives = stored_debt(text)
  if not debt then
    return false
  end
  local adds = max(cost, 1) * interval
  local passed = debt + adds > most and 0 or times == 1 and 1 or min(floor((most - debt) / adds), times)
  local over = debt + adds * (passed + 1) - most
  if cost == 0 or passed == 0 then
    adds, passed = 0, passed > 0 and times or 0
    if not plain_check_is_absent(key, text) then
      return false
    end
  elseif not set_debt(key, text, debt + adds * passed, lives) then
    return false
  end
  for i = #plain_replies + 1, #plain_replies + passed do
    debt = debt + adds
    plain_replies[i] = debt_reply(CHECK_ALLOW, 0, debt)
  end
  if passed < times then
    local wait = max(cost, 1) > ceiling and window or ceil(over / drain)
    plain_reply(debt_reply(CHECK_THROTTLE, wait, debt), times - passed)
  end
  return true
end

local function decide(_, first, column, argument, number, items)
  open(ARGV[argument + 1])
  plain_check_row(first, first + column, number, items, check)
end
