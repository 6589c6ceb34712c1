-- Reserves values of a sequence ahead, for this primary.
--
-- keys[1] counter hash: the sequence
-- argv[1] needed 1..2^63-1, the last value that is needed
-- argv[2] upto needed..2^63-1, what to reserve up to, as far as a calendar reaches
-- argv[3] most 1..2^63-1, no value is above it
-- argv[4] dating see lib/calendar.lua; empty where values only count
--
-- Returns {0, reserved, epoch}: what is reserved now, and in which epoch
-- Writes counter, permanent; in any case, so that a WAIT behind it waits for it
-- Cost O(1)

local function decide(keys, argv, now)
  local counter_key, needed, upto, most, dating = keys[1], argv[1], argv[2], argv[3], argv[4]
  local this = epoch()
  local last, reserved, confirmed = read_reserved(counter_key, most, this)
  if dating ~= '' then
    local _, furthest = values_at(dating, now)
    upto = exceeds(upto, furthest) and greater(needed, furthest) or upto
  end
  reserved = greater(upto, reserved)
  local passed = last and { 'last', last } or {}
  call('HSET', counter_key, 'reserved', reserved, 'epoch', this, 'confirmed', confirmed, unpack(passed))
  return { 0, reserved, this }
end
