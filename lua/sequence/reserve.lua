-- Reserves values of a sequence ahead, for this primary.
--
-- keys[1] counter hash: the sequence
-- argv[1] upto 1..2^63-1, what to reserve up to
-- argv[2] most 1..2^63-1, no value is above it
--
-- Returns {0, reserved, epoch}: what is reserved now, and in which epoch
-- Writes counter, permanent; in any case, so that a WAIT behind it waits for it
-- Cost O(1)

local function decide(keys, argv, _)
  local counter_key, upto, most, this = keys[1], argv[1], argv[2], epoch()
  local last, reserved, confirmed = read_reserved(counter_key, most, this)
  reserved = greater(upto, reserved)
  local passed = last and { 'last', last } or {}
  call('HSET', counter_key, 'reserved', reserved, 'epoch', this, 'confirmed', confirmed, unpack(passed))
  return { 0, reserved, this }
end
