-- Checks whether a name has state, for the limits of its namespace.
--
-- @include index
--
-- keys[1] key zset: names of the index, or the first key of a partition, of any type
-- argv[1] name the partition in the index, 1..321 bytes; empty for a key of a partition
--
-- Returns {0, 1 if the name has state, else 0}
-- Writes nothing; deletes an index of another type
-- Cost O(1): 3 µs
local function decide(keys, argv, _)
  local key, name = keys[1], argv[1]
  if name == '' then
    return { OK, call('EXISTS', key) }
  end
  index_heal(key, 'zset')
  return { OK, call('ZSCORE', key, name) and 1 or 0 }
end
