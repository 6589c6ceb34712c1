-- Reserves values of a sequence ahead, in the epoch of this primary.
--
-- @include calendar decimal sequence store
--
-- keys[1] counter hash: the sequence.
-- argv[1] needed last value that is needed, 1..2^63-1.
-- argv[2] upto value to reserve up to, within the reach of a calendar, needed..2^63-1.
-- argv[3] most highest value of the sequence, 1..2^63-1.
-- argv[4] dating calendar (lib/calendar.lua), empty for plain values.
--
-- Returns {0, reserved, epoch}: the value that is now reserved, and its epoch.
-- Writes counter, permanent; always, so that a later WAIT covers it.
-- Cost O(1).

local function decide(keys, argv, now)
  local counter_key, needed, upto, most, dating = keys[1], argv[1], argv[2], argv[3], argv[4]
  local this = sequence_epoch()
  local last, reserved, confirmed = sequence_read_reserved(counter_key, most, this)
  if not last and reserved == '0' then
    store_read()
  end
  if dating ~= '' then
    local _, furthest = calendar_values(dating, now)
    upto = decimal_exceeds(upto, furthest) and decimal_max(needed, furthest) or upto
  end
  reserved = decimal_max(upto, reserved)
  local passed = last and { 'last', last } or {}
  call('HSET', counter_key, 'reserved', reserved, 'epoch', this, 'confirmed', confirmed, unpack(passed))
  return { OK, reserved, this }
end
