-- Shared by the scripts of lua/index. An index is a zset of partition names by their last note,
-- so that a name only moves towards the end.
local call, format = redis.call, string.format

-- Deletes a key of another type: the index decides nothing, and later notes refill it.
local function heal(key, type)
  local is = call('TYPE', key).ok
  if is ~= type and is ~= 'none' then
    call('DEL', key)
  end
end
