-- Shared by the scripts of lua/index. An index is a zset of partition names by their last note,
-- so that a name only moves towards the end.
-- Deletes a key of another type: the index decides nothing, and later notes refill it. Scripts that
-- only read do it too: otherwise the sweeper would fail until the next note.
local function index_heal(key, type)
  local is = call('TYPE', key).ok
  if is ~= type and is ~= 'none' then
    call('DEL', key)
  end
end
