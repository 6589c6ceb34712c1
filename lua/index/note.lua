-- Notes that a partition holds something, for listings and for the sweeper.
--
-- keys[1] partitions zset: partition names by the time last noted
-- keys[2] kept set: those that hold settings for good
-- keys[3] ends zset: partition names by when the sweeper looks at them next
-- argv[1] name the partition, 1..256 bytes
-- argv[2] how 0 it holds something for a while, 1 it holds settings for good,
--         2 it no longer does
-- argv[3] look_ms ms until the sweeper has to look at it; empty where nothing of it ends
--
-- Returns {0}
-- Writes partitions, kept and ends, permanent; names not noted for 400 days are dropped
--        unless they are kept, at most 100 a call of the script
-- Cost O(log partitions): 7 µs
local KEEP = 400 * 86400 * 1000000
-- How many more old names this call of the script, with all its items, looks at.
local olds = 100

local function decide(keys, argv, now)
  local partitions_key, kept_key, ends_key, name, how = keys[1], keys[2], keys[3], argv[1], argv[2]
  local look_ms = argv[3]
  heal(partitions_key, 'zset')
  heal(kept_key, 'set')
  heal(ends_key, 'zset')
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
  return { 0 }
end
