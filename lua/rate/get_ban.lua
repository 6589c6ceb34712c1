-- Reads a key's ban in force.
--
-- keys[1] ban string: the key's ban.
--
-- Returns {0}: it is not banned.
--         {1, ends, strikes, reason, actor}.
-- Writes nothing.
-- Cost O(1).
local function decide(keys, _, now)
  local ban = read_ban(keys[1], now)
  if not ban or ban.ends <= now then
    return { 0 }
  end
  return { 1, ban.ends, ban.strikes, ban.reason, ban.actor }
end
