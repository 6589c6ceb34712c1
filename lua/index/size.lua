-- Counts the partition names of an index, for the limits of namespaces.
--
-- @include index
--
-- keys[1] partitions zset: partition names by the time of last registration, of all or of one namespace
--
-- Returns {0, names}
-- Writes nothing; deletes a key of another type
-- Cost O(1): 3 µs
local function decide(keys, _, _)
  local partitions_key = keys[1]
  index_heal(partitions_key, 'zset')
  return { OK, call('ZCARD', partitions_key) }
end
