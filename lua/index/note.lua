-- Notes that a partition holds something, for listings.
--
-- keys[1] partitions zset: partition names by the time last noted
-- argv[1] name the partition, 1..256 bytes
--
-- Returns {0}
-- Writes partitions, permanent; names not noted for 40 days are dropped, at
--        most 100 a call
-- Cost O(log partitions)
local KEEP = 40 * 86400 * 1000000

local function decide(keys, argv, now)
  local partitions_key, name = keys[1], argv[1]
  call('ZADD', partitions_key, format('%.0f', now), name)
  local lapsed = call('ZRANGEBYSCORE', partitions_key, '-inf', format('%.0f', now - KEEP), 'LIMIT', 0, 100)
  if #lapsed > 0 then
    call('ZREM', partitions_key, unpack(lapsed))
  end
  return { 0 }
end
