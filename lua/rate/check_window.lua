-- Counts calls of keys against a fixed or a calendar window: the plain form of rate/check.lua.
--
-- @include check plain plain_check usage
--
-- keys[1] usage_key string: the key's counter.
-- keys[2] ban_key string: the key's ban.
-- argv[1] limit packed (lib/limits.lua), kind 1 or 2.
-- argv[2] cost 0..4294967295; 0 evaluates a cost of 1 and writes nothing.
-- Shared argv[1..1]
-- Plain 5
--
-- Returns {verdict, 0, retry_after ms or 0, count, reset_after ms}.
--         {255, 0, 0, 0, 0}: declined, because the check is not plain.
-- Writes usage, TTL: the end of its window. A count that is changed in place keeps the TTL.
-- Cost O(1): 6 µs.
local CALENDAR = 2 -- kind of limits (lib/limits.lua)
local VALUE, VALUE_BYTES = 'I8BI2I8I4', 23 -- of a counter (lib/counters.lua), after name and kind
local head, form, size, used_at, is_calendar, ceiling, window, current, ttl

local function open(limit)
  local name, kind, shift
  name, kind, ceiling, window, shift = scan('<sBI4I8I8', limit)
  head, is_calendar, current = pack('<sB', name, kind), kind == CALENDAR, now
  form, size, used_at = '<c' .. #head .. VALUE, #head + VALUE_BYTES, #head + VALUE_BYTES - 4
  if is_calendar then
    current = max(floor((now + shift) / window) * window - shift, 0)
  end
  ttl = format('%d', ceil((current + window - now) / 1000))
end

-- Returns start and count of the window, and whether it is stored; nil if the usage is not plain.
local function stored_window(text)
  if not text then
    return current, 0, false
  elseif #text ~= size then
    return nil
  end
  local found, forget, notices, bytes, start, count = scan(form, text)
  if found ~= head or notices ~= 0 or bytes ~= 12 or start > now or forget ~= start + window then
    return nil
  elseif forget <= now then
    return current, 0, false
  elseif is_calendar and start ~= current then
    return nil
  end
  return start, count, true
end

local function check(key, text, cost, times)
  local start, count, is_stored = stored_window(text)
  local adds = cost > 0 and cost or 1
  if not start or count + adds * times > USAGE_COUNT_MAX then
    return false
  end
  local passed = count + adds > ceiling and 0 or times == 1 and 1 or min(floor((ceiling - count) / adds), times)
  if cost == 0 or passed == 0 then
    adds, passed = 0, passed > 0 and times or 0
    if not plain_check_is_absent(key, text) then
      return false
    end
  elseif is_stored then
    call('SETRANGE', key, used_at, pack('<I4', count + adds * passed))
  else
    local value = pack(form, head, start + window, 0, 12, start, count + adds * passed)
    if not plain_check_set(key, text, value, ttl) then
      return false
    end
  end
  local left = start + window - now
  local left_ms = left + 999
  left_ms = (left_ms - left_ms % 1000) / 1000
  for i = #plain_replies + 1, #plain_replies + passed do
    count = count + adds
    plain_replies[i] = pack(PLAIN_CHECK_REPLY, CHECK_ALLOW, 0, 0, count, count > 0 and left_ms or 0)
  end
  if passed < times then
    local wait_ms = max(cost, 1) > ceiling and ceil(window / 1000) or left_ms
    local reply = pack(PLAIN_CHECK_REPLY, CHECK_THROTTLE, 0, wait_ms, count, count > 0 and left_ms or 0)
    plain_reply(reply, times - passed)
  end
  return true
end

local function decide(_, first, column, argument, number, items)
  open(ARGV[argument + 1])
  plain_check_row(first, first + column, number, items, check)
end
