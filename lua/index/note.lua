-- Notes that a partition holds something, for listings.
--
-- keys[1] partitions zset: partition names by the time last noted
-- argv[1] name the partition, 1..256 bytes
-- argv[2] how 0 it holds something for a while, 1 it holds settings for good,
--         2 it no longer does
--
-- Returns {0}
-- Writes partitions, permanent; names not noted for 40 days are dropped, at
--        most 100 a call
-- Cost O(log partitions)
local KEEP = 40 * 86400 * 1000000
-- Later than any time: noted for good.
local FOR_GOOD = 2 ^ 53

local function decide(keys, argv, now)
  local partitions_key, name, how = keys[1], argv[1], argv[2]
  local kind = call('TYPE', partitions_key).ok
  if kind ~= 'zset' and kind ~= 'none' then
    call('DEL', partitions_key) -- It decides nothing, and fills up again.
  end
  if how == '2' then
    call('ZADD', partitions_key, format('%.0f', now), name)
  else
    -- GT: what is noted for good stays so when it is in use.
    call('ZADD', partitions_key, 'GT', format('%.0f', how == '1' and FOR_GOOD or now), name)
  end
  local lapsed = call('ZRANGEBYSCORE', partitions_key, '-inf', format('%.0f', now - KEEP), 'LIMIT', 0, 100)
  if #lapsed > 0 then
    call('ZREM', partitions_key, unpack(lapsed))
  end
  return { 0 }
end
