-- Format of a sequence, a hash: last (the last value given out) and time (when, µs). If values
-- are reserved ahead also reserved (no primary has given out a greater value), epoch (the
-- primary that reserved) and confirmed (the reserved value that replicas acknowledged).
--
-- Values go up to 2^63-1, beyond Lua's numbers. They are decimal text, compared by length, then
-- byte by byte, and added in two parts that are both exact.
local call, format, match, sub = redis.call, string.format, string.match, string.sub
local VALUE_MAX = '9223372036854775807'
-- 2^52 µs, the year 2112.
local TIME_MAX = '4503599627370495'
local UNREADABLE = 'CORRUPT sequence; set its last value above all values given out (lua/README.md)'
-- Digits of the low part of a value; one number holds them exactly.
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

-- Whether the text is absent, or a canonical number up to `most`.
local function is_number(text, most)
  local canonical = not text or text == '0' or match(text, '^[1-9]%d*$')
  return canonical and not (text and exceeds(text, most))
end

-- Epoch of this Redis as a primary: its master_replid, which every restart and promotion
-- changes.
local this_epoch
local function epoch()
  this_epoch = this_epoch or match(call('INFO', 'replication'), 'master_replid:(%x+)')
  if not this_epoch then
    error('UNSUPPORTED INFO has no master_replid, so no value can be reserved; use Redis or Valkey', 0)
  end
  return this_epoch
end

-- Reads a sequence with values up to `most`: last, time, reserved, confirmed and epoch, false
-- for absent fields.
local function read(key, most)
  local fine, fields = pcall(call, 'HMGET', key, 'last', 'time', 'reserved', 'confirmed', 'epoch')
  if not fine then
    local message = type(fields) == 'table' and fields.err or fields
    error(string.find(message, 'WRONGTYPE', 1, true) and UNREADABLE or message, 0)
  end
  local last, time, reserved, confirmed, by = unpack(fields)
  local values = is_number(last, most) and is_number(reserved, most) and is_number(confirmed, most)
  if not (values and is_number(time, TIME_MAX)) then
    error(UNREADABLE, 0)
  end
  return last, time, reserved, confirmed, by
end

-- Returns the last value that may have been given out (nil for none), the reserved value, and
-- the reserved value that is acknowledged in this epoch. `this` is the epoch, nil for a caller
-- that does not reserve. Values reserved in another epoch count as given out, since its last
-- writes may be lost.
local function read_reserved(key, most, this)
  local last, _, reserved, confirmed, by = read(key, most)
  if not reserved then
    return last or nil, '0', '0'
  elseif by ~= this then
    return greater(last or '0', reserved), reserved, '0'
  end
  return last or nil, reserved, confirmed or '0'
end
