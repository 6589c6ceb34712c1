-- Reserves values of a sequence ahead, for the process of Redis that runs this.
--
-- keys[1] counter hash: the sequence
-- argv[1] upto 0..2^63-1, what to reserve up to
-- argv[2] instance the process of Redis that runs this
--
-- Returns {0, reserved}: what is reserved now
-- Writes counter, permanent; in any case, so that a WAIT behind it waits for it
-- Cost O(1)

local function decide(keys, argv, _)
  local counter_key, upto, instance = keys[1], argv[1], argv[2]
  local last, reserved = read_reserved(counter_key, instance, '0')
  reserved = greater(upto, reserved)
  call('HSET', counter_key, 'reserved', reserved, 'instance', instance, unpack(last and { 'last', last } or {}))
  return { 0, reserved }
end
