-- Schedules the sweeper's next visit to a partition, or removes a vacant one from the index.
--
-- @include index
--
-- A registration and its decision are two steps, in either order. A vacant name is removed only
-- when no server relies on its last registration any more: servers rely on it for 60 s, plus the
-- duration of a call. A name that was registered again since the sweeper read it stays. A scheduled
-- visit is never postponed, because servers do not register a name again while they rely on its
-- registration.
--
-- keys[1] partitions zset: partition names by the time of last registration
-- keys[2] ends zset: partition names by the sweeper's next visit
-- keys[3] listed zset: the names of one namespace, with the scores of partitions, for its
--         listings; partitions itself for the default namespace
-- argv[1] name the partition, 1..321 bytes
-- argv[2] registered time of the last registration that the sweeper read, µs; 0 for none
-- argv[3] next next end of its state, µs; 0 for none
-- argv[4] vacant 1 if it has no state, else 0
-- argv[5] before vacant names registered before this time are removed, µs
--
-- Returns {0, 0}: it stays
--         {0, 1}: it was removed
-- Writes partitions, ends and listed, permanent; deletes a key of another type
-- Cost O(log partitions)

-- After this time, the decision that belongs to a registration has usually been made, µs.
local TAKEN = 10 * 1000000
-- The next visit is at least this long after now, because the clocks of nodes differ, µs.
local SOON = 100000
-- Earliest removal of a vacant name after its last registration, µs. A name that stays after that time
-- waits for a server that has just started to sweep. Its next visit is then this long after now.
local RECHECK = 150 * 1000000

local function decide(keys, argv, now)
  local partitions_key, ends_key, listed_key, name = keys[1], keys[2], keys[3], argv[1]
  local registered, next, is_vacant, before = tonumber(argv[2]), tonumber(argv[3]), argv[4] == '1', tonumber(argv[5])
  index_heal(partitions_key, 'zset')
  index_heal(ends_key, 'zset')
  index_heal(listed_key, 'zset')
  local is = tonumber(call('ZSCORE', partitions_key, name) or 0)
  if is ~= registered then
    if next > 0 then
      call('ZADD', ends_key, 'LT', format('%.0f', next), name)
    end
    return { OK, 0 }
  elseif is_vacant and is < before then
    call('ZREM', partitions_key, name)
    call('ZREM', ends_key, name)
    call('ZREM', listed_key, name)
    return { OK, 1 }
  elseif is == 0 and not is_vacant then
    call('ZADD', partitions_key, format('%.0f', now), name)
  end
  if listed_key ~= partitions_key and not is_vacant then
    -- If the zset was lost, a scan of the index fills it again.
    call('ZADD', listed_key, 'GT', format('%.0f', is > 0 and is or now), name)
  end
  local visit = next > 0 and next or math.huge
  if is <= now and is + TAKEN > now then
    visit = math.min(visit, is + TAKEN)
  elseif is_vacant then
    visit = math.min(visit, (is + RECHECK > now and is or now) + RECHECK)
  end
  local scheduled = tonumber(call('ZSCORE', ends_key, name) or 0)
  if scheduled > now then
    visit = math.min(visit, scheduled)
  end
  if visit < math.huge then
    call('ZADD', ends_key, format('%.0f', math.max(visit, now + SOON)), name)
  else
    call('ZREM', ends_key, name)
  end
  return { OK, 0 }
end
