-- A sequence is a hash: last (the last value given out) and time (when, µs); where
-- values are reserved ahead also reserved (no process of Redis has given out more),
-- confirmed (what the replicas are known to have of it) and instance (the process
-- that this is true of).
--
-- Values go up to 2^63-1, beyond what Lua's numbers hold: they are decimal text,
-- compared by length, then byte by byte, and added in two parts of which each is
-- exact.
local call, format, sub = redis.call, string.format, string.sub
local VALUE_MAX = '9223372036854775807'
local UNREADABLE = 'CORRUPT sequence; its hash has to be set above all that was given out, as lua/README.md says'
-- Of the decimal digits of a value, those that one number holds.
local PART, PART_END = 15, 1e15

local function exceeds(one, other)
  if #one ~= #other then
    return #one > #other
  end
  return one > other
end

local function greater(one, other)
  return exceeds(one, other) and one or other
end

local function add(one, other)
  local low = tonumber(sub(one, -PART)) + tonumber(sub(other, -PART))
  local high = (tonumber(sub(one, 1, -PART - 1)) or 0) + (tonumber(sub(other, 1, -PART - 1)) or 0)
  if low >= PART_END then
    low, high = low - PART_END, high + 1
  end
  return high > 0 and format('%.0f%015.0f', high, low) or format('%.0f', low)
end

local function is_value(text)
  local canonical = text == '0' or string.match(text, '^[1-9]%d*$')
  return canonical and not exceeds(text, VALUE_MAX)
end

-- What is known of a sequence: last, time, reserved, confirmed and instance, false
-- for what is not.
local function read(key)
  local fine, fields = pcall(call, 'HMGET', key, 'last', 'time', 'reserved', 'confirmed', 'instance')
  if not fine then
    local message = type(fields) == 'table' and fields.err or fields
    error(string.find(message, 'WRONGTYPE', 1, true) and UNREADABLE or message, 0)
  end
  for i = 1, 4 do
    if fields[i] and not is_value(fields[i]) then
      error(UNREADABLE, 0)
    end
  end
  return unpack(fields)
end

-- The last value that may have been given out (nil for none), what is reserved, and
-- what of it is confirmed. What another process of Redis has reserved it may have
-- given out before it failed: its last writes may not be here.
local function read_reserved(key, instance, known)
  local last, _, reserved, confirmed, by = read(key)
  last, reserved = last or nil, reserved or '0'
  if by == instance then
    return last, reserved, greater(confirmed or '0', known)
  elseif reserved ~= '0' then
    last = greater(last or '0', reserved)
  end
  return last, reserved, '0'
end
