-- Registers that a partition has state, for listings and for the sweeper.
--
-- @include index
--
-- keys[1] partitions zset: partition names by the time of last registration
-- keys[2] kept set: names of partitions with permanent settings
-- keys[3] ends zset: partition names by the sweeper's next visit
-- keys[4] listed zset: the names of one namespace, with the scores of partitions, for its
--         listings; partitions itself for the default namespace
-- argv[1] name the partition, 1..321 bytes
-- argv[2] how 0 it has temporary state, 1 it has permanent settings, 2 they were
--         removed
-- argv[3] visit_ms ms until the sweeper must visit it; empty if none of its state ends
--
-- Returns {0}
-- Writes partitions, kept, ends and listed, permanent; drops at most 100 names in a script call:
--        names not registered for 400 days and without permanent settings
-- Cost O(log partitions): 7 µs
local KEEP = 400 * 86400 * 1000000
-- Old names that this script call, with all its items, may still examine.
local olds = 100

-- Drops names that were not registered for 400 days from a zset. Names with permanent settings stay.
local function drop(zset_key, kept_key, ends_key, now)
  local lapsed = call('ZRANGEBYSCORE', zset_key, '-inf', format('%.0f', now - KEEP), 'LIMIT', 0, olds)
  olds = olds - #lapsed
  for _, old in ipairs(lapsed) do
    if call('SISMEMBER', kept_key, old) == 1 then
      call('ZADD', zset_key, format('%.0f', now), old)
    else
      call('ZREM', zset_key, old)
      call('ZREM', ends_key, old)
    end
  end
end

local function decide(keys, argv, now)
  local partitions_key, kept_key, ends_key, listed_key = keys[1], keys[2], keys[3], keys[4]
  local name, how, visit_ms = argv[1], argv[2], argv[3]
  index_heal(partitions_key, 'zset')
  index_heal(kept_key, 'set')
  index_heal(ends_key, 'zset')
  if how == '1' then
    call('SADD', kept_key, name)
  elseif how == '2' then
    call('SREM', kept_key, name)
  end
  call('ZADD', partitions_key, 'GT', format('%.0f', now), name)
  if visit_ms ~= '' then
    call('ZADD', ends_key, 'LT', format('%.0f', now + visit_ms * 1000), name)
  end
  drop(partitions_key, kept_key, ends_key, now)
  if listed_key ~= partitions_key then
    index_heal(listed_key, 'zset')
    call('ZADD', listed_key, 'GT', format('%.0f', now), name)
    drop(listed_key, kept_key, ends_key, now)
  end
  return { OK }
end
