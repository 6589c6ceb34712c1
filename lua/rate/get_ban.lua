-- Reads a key's ban in force.
--
-- @include ban
--
-- keys[1] ban string: the key's ban.
--
-- Returns {0}: it is not banned.
--         {1, ends, strikes, reason, actor}.
-- Writes nothing.
-- Cost O(1).
local GET_BAN_NONE, GET_BAN_BANNED = 0, 1

local function decide(keys, _, now)
  local ban = ban_read(keys[1], now)
  if not ban or ban.ends <= now then
    return { GET_BAN_NONE }
  end
  return { GET_BAN_BANNED, ban.ends, ban.strikes, ban.reason, ban.actor }
end
