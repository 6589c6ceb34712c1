-- Bans a key, counted from now; replaces a ban in force.
--
-- @include ban rate_event
--
-- keys[1] ban string: the key's ban.
-- keys[2] events list: history of the key's shard.
-- argv[1] duration µs, 1000..2592000000000.
-- argv[2] memory strikes are remembered after the ban's end, µs, 1000..2592000000000.
-- argv[3] reason text, 0..256 bytes.
-- argv[4] actor text, 0..256 bytes.
-- argv[5] subject the key in events, empty without events.
--
-- Returns {0, ends, strikes, reason, actor}.
-- Writes ban, TTL: its end and memory; events, TTL: 24 h.
-- Cost O(1).
local function decide(keys, argv, now)
  local ban_key, events_key, subject = keys[1], keys[2], argv[5]
  local duration, memory, reason, actor = tonumber(argv[1]), tonumber(argv[2]), argv[3], argv[4]

  local known = ban_read(ban_key, now)
  local strikes = 1
  if known then
    -- A ban that replaces one in force is the same strike.
    strikes = known.ends > now and known.strikes or min(known.strikes + 1, BAN_STRIKES_MAX)
  end
  local ends = now + duration
  local ban = { ends = ends, forget = ends + memory, strikes = strikes, reason = reason, actor = actor }
  if subject ~= '' then
    rate_event_append(events_key, RATE_EVENT_BANNED, subject, now, nil, nil, ban, actor)
  end
  ban_write(ban_key, ban, now)
  return { OK, ban.ends, ban.strikes, ban.reason, ban.actor }
end
