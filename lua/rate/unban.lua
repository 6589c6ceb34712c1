-- Lifts a key's ban and forgets its strikes and its usage, readable or not.
--
-- keys[1] usage string: the key's counters
-- keys[2] ban string: the key's ban
--
-- Returns {0}: it was not banned
--         {1}: it was
-- Writes usage, ban (removes)
-- Cost O(1)
local function decide(keys, _, now)
  local usage_key, ban_key = keys[1], keys[2]
  local readable, ban = pcall(read_ban, ban_key, now)
  call('DEL', usage_key, ban_key)
  if readable and (not ban or ban.ends <= now) then
    return { 0 }
  end
  return { 1 }
end
