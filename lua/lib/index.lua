-- Shared by the scripts of lua/index. An index is a zset of partition names by their last
-- registration, so a name only moves towards the end.
-- Deletes a key of another type: the index decides nothing, and later registrations refill it.
-- Scripts that only read do so, too: otherwise the sweeper would fail until the next registration.
local function index_heal(key, type)
  local is = call('TYPE', key).ok
  if is ~= type and is ~= 'none' then
    call('DEL', key)
  end
end
