-- Reads the usage of a key under each limit of a rule, its ban and its strikes.
--
-- @include ban limits meter usage
--
-- keys[1] usage string: the key's counters.
-- keys[2] ban string: the key's ban.
-- argv[1] limits packed (lib/limits.lua), 1 to 8; empty for a domain, which has no rule.
--
-- Returns {0 no ban in force, strikes, then of each limit count, reset_after ms}.
--         {1 banned, ends, strikes, reason, actor, then the same}.
-- Writes nothing.
-- Cost O(limits): 10 µs; a sliding window O(122): up to 55 µs; 32 limit names 130 µs more.
local GET_KEY_FREE, GET_KEY_BANNED = 0, 1

local function decide(keys, argv, now)
  local usage_key, ban_key, limits = keys[1], keys[2], limits_read(argv[1])
  if not pcall(meter_read, limits, usage_key, now) then
    error(USAGE_UNREADABLE, 0)
  end
  local ban = ban_read(ban_key, now)
  local reply
  if ban and ban.ends > now then
    reply = { GET_KEY_BANNED, ban.ends, ban.strikes, ban.reason, ban.actor }
  else
    reply = { GET_KEY_FREE, ban and ban.strikes or 0 }
  end
  limits_append_usage(reply, limits, now)
  return reply
end
