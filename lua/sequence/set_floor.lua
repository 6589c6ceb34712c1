-- Moves a sequence forward, so that its next value is at least a floor.
--
-- @include calendar decimal sequence
--
-- keys[1] counter hash: the sequence.
-- argv[1] floor lowest next value, 0..2^63-1.
-- argv[2] before the value before the floor, 0..2^63-2; 0 for a floor of 0.
-- argv[3] most highest value of the sequence, 1..2^63-1.
-- argv[4] dating calendar (lib/calendar.lua), empty for plain values.
-- argv[5] reserve 1 if values are reserved ahead, else 0.
--
-- Returns {0 applied, last}: the next value is above last, the value before the floor.
--         {1 not above, last}: the floor is not above the last value; nothing changed.
--         {2 too far ahead}: the floor is too far beyond the clock; nothing changed.
-- Writes counter, permanent, without reserved values.
-- Cost O(1).
local SET_FLOOR_APPLIED, SET_FLOOR_NOT_ABOVE, SET_FLOOR_TOO_FAR_AHEAD = 0, 1, 2

local function decide(keys, argv, now)
  local counter_key, lowest, before, most, dating = keys[1], argv[1], argv[2], argv[3], argv[4]
  local this = argv[5] == '1' and sequence_epoch() or nil
  local last = sequence_read_reserved(counter_key, most, this)
  if last and decimal_exceeds(last, before) then
    return { SET_FLOOR_NOT_ABOVE, last }
  end
  if dating ~= '' then
    local _, furthest = calendar_values(dating, now)
    if decimal_exceeds(lowest, furthest) then
      return { SET_FLOOR_TOO_FAR_AHEAD }
    end
  end
  call('HSET', counter_key, 'last', before, 'time', format('%.0f', now))
  -- Values up to the floor are dropped; the next call reserves again.
  call('HDEL', counter_key, 'reserved', 'epoch', 'confirmed')
  return { SET_FLOOR_APPLIED, before }
end
