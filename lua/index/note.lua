-- Notes that a partition has state, for listings and for the sweeper.
--
-- @include index
--
-- keys[1] partitions zset: partition names by the time last noted
-- keys[2] kept set: names of partitions with permanent settings
-- keys[3] ends zset: partition names by the sweeper's next look
-- argv[1] name the partition, 1..256 bytes
-- argv[2] how 0 it has temporary state, 1 it has permanent settings, 2 it has them
--         no more
-- argv[3] look_ms ms until the sweeper must look at it; empty if none of its state ends
--
-- Returns {0}
-- Writes partitions, kept and ends, permanent; drops at most 100 names in a script call:
--        names without a note for 400 days and without permanent settings
-- Cost O(log partitions): 7 µs
local KEEP = 400 * 86400 * 1000000
-- Old names that this script call, with all its items, may still look at.
local olds = 100

local function decide(keys, argv, now)
  local partitions_key, kept_key, ends_key, name, how = keys[1], keys[2], keys[3], argv[1], argv[2]
  local look_ms = argv[3]
  index_heal(partitions_key, 'zset')
  index_heal(kept_key, 'set')
  index_heal(ends_key, 'zset')
  if how == '1' then
    call('SADD', kept_key, name)
  elseif how == '2' then
    call('SREM', kept_key, name)
  end
  call('ZADD', partitions_key, 'GT', format('%.0f', now), name)
  if look_ms ~= '' then
    call('ZADD', ends_key, 'LT', format('%.0f', now + look_ms * 1000), name)
  end
  local lapsed = call('ZRANGEBYSCORE', partitions_key, '-inf', format('%.0f', now - KEEP), 'LIMIT', 0, olds)
  olds = olds - #lapsed
  for _, old in ipairs(lapsed) do
    if call('SISMEMBER', kept_key, old) == 1 then
      call('ZADD', partitions_key, format('%.0f', now), old)
    else
      call('ZREM', partitions_key, old)
      call('ZREM', ends_key, old)
    end
  end
  return { OK }
end
