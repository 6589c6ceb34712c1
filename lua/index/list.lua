-- Reads a page of partition names, in the order of their last registration.
--
-- @include index
--
-- keys[1] partitions zset: partition names by the time of last registration, of all or of one namespace
-- argv[1] limit names, 1..1000
-- argv[2] after_time when the previous page's last name was registered, µs, or empty
-- argv[3] after_name that name, or empty
--
-- Returns {0, more 0 or 1, (name, time registered) …}
-- Writes nothing; deletes a key of another type
-- Cost O(log partitions + limit): 2.5 µs a name
local function decide(keys, argv, _)
  local partitions_key = keys[1]
  local limit, after_time, after_name = tonumber(argv[1]), argv[2], argv[3]

  index_heal(partitions_key, 'zset')
  local start = 0
  if after_time ~= '' then
    -- A name that was registered again has moved towards the end: continue at its old rank.
    local registered = call('ZSCORE', partitions_key, after_name)
    if registered and format('%.0f', tonumber(registered)) == after_time then
      start = call('ZRANK', partitions_key, after_name) + 1
    else
      start = call('ZCOUNT', partitions_key, '-inf', '(' .. after_time)
    end
  end
  local page = call('ZRANGE', partitions_key, start, start + limit, 'WITHSCORES')
  local reply = { OK, page[2 * limit + 1] and 1 or 0 }
  for i = 1, math.min(#page, 2 * limit) do
    reply[#reply + 1] = page[i]
  end
  return reply
end
