-- Reads the partitions with the latest notes, the latest first.
--
-- keys[1] partitions zset: partition names by the time last noted
-- argv[1] limit names, 1..1000
--
-- Returns {0, 0, (name, time noted) …}
-- Writes nothing
-- Cost O(log partitions + limit)
local function decide(keys, argv, _)
  local latest = call('ZRANGE', keys[1], 0, argv[1] - 1, 'REV', 'WITHSCORES')
  return { 0, 0, unpack(latest) }
end
