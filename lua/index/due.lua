-- Reads the partitions that the sweeper must visit now, the longest overdue first.
--
-- @include index
--
-- keys[1] partitions zset: partition names by the time of last registration
-- keys[2] ends zset: partition names by the sweeper's next visit
-- argv[1] limit names, 1..1000
--
-- Returns {0, more 0 or 1, (name, time registered or 0) …}
-- Writes nothing; deletes a key of another type
-- Cost O(limit log partitions)
local function decide(keys, argv, now)
  local partitions_key, ends_key, limit = keys[1], keys[2], tonumber(argv[1])
  index_heal(partitions_key, 'zset')
  index_heal(ends_key, 'zset')
  local due = call('ZRANGEBYSCORE', ends_key, '-inf', format('%.0f', now), 'LIMIT', 0, limit + 1)
  local reply = { OK, due[limit + 1] and 1 or 0 }
  for i = 1, math.min(#due, limit) do
    local registered = tonumber(call('ZSCORE', partitions_key, due[i]) or 0)
    reply[#reply + 1] = due[i]
    reply[#reply + 1] = format('%.0f', registered)
  end
  return reply
end
