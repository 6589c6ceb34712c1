-- Notes that a partition holds something, for listings and for the sweeper.
--
-- keys[1] partitions zset: partition names by the time last noted
-- keys[2] kept set: those that hold settings for good
-- argv[1] name the partition, 1..256 bytes
-- argv[2] how 0 it holds something for a while, 1 it holds settings for good,
--         2 it no longer does
--
-- Returns {0}
-- Writes partitions and kept, permanent; names not noted for 400 days are dropped unless
--        they are kept, at most 100 a call
-- Cost O(log partitions)
local KEEP = 400 * 86400 * 1000000

local function heal(key, type)
  local is = call('TYPE', key).ok
  if is ~= type and is ~= 'none' then
    call('DEL', key) -- It decides nothing, and fills up again.
  end
end

local function decide(keys, argv, now)
  local partitions_key, kept_key, name, how = keys[1], keys[2], argv[1], argv[2]
  heal(partitions_key, 'zset')
  heal(kept_key, 'set')
  if how == '1' then
    call('SADD', kept_key, name)
  elseif how == '2' then
    call('SREM', kept_key, name)
  end
  call('ZADD', partitions_key, 'GT', format('%.0f', now), name)
  local lapsed = call('ZRANGEBYSCORE', partitions_key, '-inf', format('%.0f', now - KEEP), 'LIMIT', 0, 100)
  for _, old in ipairs(lapsed) do
    if call('SISMEMBER', kept_key, old) == 1 then
      call('ZADD', partitions_key, format('%.0f', now), old)
    else
      call('ZREM', partitions_key, old)
    end
  end
  return { 0 }
end
