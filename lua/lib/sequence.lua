-- Format of a sequence, a hash: last (the last value given out) and time (when it was given out,
-- µs). If values are reserved ahead, also reserved (no primary has given out a greater value), epoch
-- (the primary that reserved) and confirmed (the reserved value that replicas acknowledged). Values
-- are decimal text (lib/decimal.lua).
--
-- @include decimal

-- TIME_MAX as decimal text.
local SEQUENCE_TIME_MAX = '4503599627370495'
local SEQUENCE_UNREADABLE = 'CORRUPT sequence; set its last value above all values given out (lua/README.md)'

-- Epoch of this Redis as a primary: its master_replid, which every restart and promotion
-- changes.
local sequence_this_epoch
local function sequence_epoch()
  sequence_this_epoch = sequence_this_epoch or match(call('INFO', 'replication'), 'master_replid:(%x+)')
  if not sequence_this_epoch then
    error('UNSUPPORTED INFO has no master_replid, so no value can be reserved; use Redis or Valkey', 0)
  end
  return sequence_this_epoch
end

-- Reads a sequence with values up to `most`: last, time, reserved, confirmed and epoch, false
-- for absent fields.
local function sequence_read(key, most)
  local fine, fields = pcall(call, 'HMGET', key, 'last', 'time', 'reserved', 'confirmed', 'epoch')
  if not fine then
    local message = type(fields) == 'table' and fields.err or fields
    error(string.find(message, 'WRONGTYPE', 1, true) and SEQUENCE_UNREADABLE or message, 0)
  end
  local last, time, reserved, confirmed, by = unpack(fields)
  local values = decimal_is_valid(last, most) and decimal_is_valid(reserved, most) and decimal_is_valid(confirmed, most)
  if not (values and decimal_is_valid(time, SEQUENCE_TIME_MAX)) then
    error(SEQUENCE_UNREADABLE, 0)
  end
  return last, time, reserved, confirmed, by
end

-- Returns the last value that may have been given out (nil for none), the reserved value, and
-- the reserved value that is acknowledged in this epoch. `this` is the epoch, nil for a caller
-- that does not reserve. Values reserved in another epoch count as given out, since its last
-- writes may be lost.
local function sequence_read_reserved(key, most, this)
  local last, _, reserved, confirmed, by = sequence_read(key, most)
  if not reserved then
    return last or nil, '0', '0'
  elseif by ~= this then
    return decimal_max(last or '0', reserved), reserved, '0'
  end
  return last or nil, reserved, confirmed or '0'
end
