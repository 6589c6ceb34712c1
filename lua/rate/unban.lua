-- Lifts a key's ban and drops its strikes and its usage, readable or not.
--
-- @include ban rate_event
--
-- keys[1] usage string: the key's counters.
-- keys[2] ban string: the key's ban.
-- keys[3] events list: history of the key's shard.
-- argv[1] actor text, 0..256 bytes.
-- argv[2] subject the key in events, empty without events.
--
-- Returns {0}: it was not banned.
--         {1}: it was banned, or the ban could not be read.
-- Writes usage, ban (removes); events, TTL: 24 h.
-- Cost O(1).
local UNBAN_NOT_BANNED, UNBAN_LIFTED = 0, 1

local function decide(keys, argv, now)
  local usage_key, ban_key, events_key = keys[1], keys[2], keys[3]
  local actor, subject = argv[1], argv[2]
  local readable, ban = pcall(ban_read, ban_key, now)
  local was_banned = not readable or (ban and ban.ends > now)
  if was_banned and subject ~= '' then
    rate_event_append(events_key, RATE_EVENT_UNBANNED, subject, now, nil, nil, nil, actor)
  end
  call('DEL', usage_key, ban_key)
  return { was_banned and UNBAN_LIFTED or UNBAN_NOT_BANNED }
end
