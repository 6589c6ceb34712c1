-- Reads the last value of a sequence.
--
-- @include sequence store
--
-- keys[1] counter hash: the sequence.
-- argv[1] most highest value of the sequence, 1..2^63-1.
--
-- Returns {0}: no value was given out.
--         {1, last, time µs}: the last value, and when it was given out.
-- Fails with STORE_LOST if there is none and the store has lost its data.
-- Writes nothing.
-- Cost O(1).

local GET_NONE, GET_LAST = 0, 1

local function decide(keys, argv, _)
  local counter_key, most = keys[1], argv[1]
  local last, time = sequence_read(counter_key, most)
  if not last then
    store_check()
    return { GET_NONE }
  end
  return { GET_LAST, last, time or '0' }
end
