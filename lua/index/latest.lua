-- Reads the most recently registered partitions, the latest first.
--
-- @include index
--
-- keys[1] partitions zset: partition names by the time of last registration
-- argv[1] limit names, 1..1000
--
-- Returns {0, 0, (name, time registered) …}
-- Writes nothing; deletes a key of another type
-- Cost O(log partitions + limit)
local function decide(keys, argv, _)
  local partitions_key, limit = keys[1], argv[1]
  index_heal(partitions_key, 'zset')
  local latest = call('ZRANGE', partitions_key, 0, limit - 1, 'REV', 'WITHSCORES')
  return { OK, 0, unpack(latest) }
end
