-- Schedules the sweeper's next look at a partition, or takes a vacant one out of the index.
--
-- A note and the decision that it stands for are two steps, in any order. So a vacant name
-- leaves only where no server can still count on its note: it was last noted before a time
-- that lies further back than a note is relied on (60 s) and a call lasts. One that was
-- noted since it was read stays as that note left it. A look that is scheduled already is
-- never put off: servers send no further note while they count on it.
--
-- keys[1] partitions zset: partition names by the time last noted
-- keys[2] ends zset: partition names by when the sweeper looks at them next
-- argv[1] name the partition, 1..256 bytes
-- argv[2] noted when it was noted last as the sweeper read it, µs; 0 for never
-- argv[3] next when something of it ends next, µs; 0 for never
-- argv[4] vacant 1 when there is nothing of it
-- argv[5] before µs: vacant names that were noted earlier leave
--
-- Returns {0, 0}: it stays
--         {0, 1}: it has left
-- Writes partitions and ends, permanent
-- Cost O(log partitions)

-- Until when the decision beside a note has been taken, as a rule.
local TAKEN = 10 * 1000000
-- The next look is not at once: clocks of nodes differ.
local SOON = 100000
-- A vacant name can leave so long after its last note.
local RECHECK = 150 * 1000000

local function decide(keys, argv, now)
  local partitions_key, ends_key, name = keys[1], keys[2], argv[1]
  local noted, next, is_vacant, before = tonumber(argv[2]), tonumber(argv[3]), argv[4] == '1', tonumber(argv[5])
  local is = tonumber(call('ZSCORE', partitions_key, name) or 0)
  if is ~= noted then
    if next > 0 then
      call('ZADD', ends_key, 'LT', format('%.0f', next), name)
    end
    return { 0, 0 }
  elseif is_vacant and is < before then
    call('ZREM', partitions_key, name)
    call('ZREM', ends_key, name)
    return { 0, 1 }
  elseif is == 0 and not is_vacant then
    call('ZADD', partitions_key, format('%.0f', now), name)
  end
  local look = next > 0 and next or math.huge
  if is <= now and is + TAKEN > now then
    look = math.min(look, is + TAKEN)
  elseif is_vacant then
    look = math.min(look, math.max(is + RECHECK, now + TAKEN))
  end
  local scheduled = tonumber(call('ZSCORE', ends_key, name) or 0)
  if scheduled > now then
    look = math.min(look, scheduled)
  end
  if look < math.huge then
    call('ZADD', ends_key, format('%.0f', math.max(look, now + SOON)), name)
  else
    call('ZREM', ends_key, name)
  end
  return { 0, 0 }
end
