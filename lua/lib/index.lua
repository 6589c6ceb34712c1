-- Shared by the scripts of lua/index: an index is a zset of partition names by
-- the time they were last noted, so a name only ever moves towards the end.
local call, format = redis.call, string.format

-- Drops a key of another type: it decides nothing, and fills up again.
local function heal(key, type)
  local is = call('TYPE', key).ok
  if is ~= type and is ~= 'none' then
    call('DEL', key)
  end
end
