-- Events of a policy's keys, joined by \31: kind (a verdict, or unbanned), time, the tier's above
-- (empty without a tier), the count including the call, ban end and strikes (0 without a ban), key,
-- reason, actor.
--
-- @include events
local RATE_EVENT_BANNED, RATE_EVENT_UNBANNED = 3, 4
-- Minimum number of events that a shard keeps; twin of crates/core/src/rate/log.rs.
local RATE_EVENT_HISTORY = 1000
local RATE_EVENT_NO_BAN = { ends = 0, strikes = 0, reason = '' }

-- Appends an event to the history of the key's shard. `above` and `count` are nil without a
-- tier, `ban` is nil without a ban.
local function rate_event_append(events_key, kind, subject, now, above, count, ban, actor)
  ban = ban or RATE_EVENT_NO_BAN
  local text = format(
    '%d\31%.0f\31%s\31%.0f\31%.0f\31%.0f\31%s\31%s\31%s',
    kind, now, above and format('%.0f', above) or '', count or 0, ban.ends, ban.strikes, subject, ban.reason, actor
  )
  events_append(events_key, RATE_EVENT_HISTORY, now, text)
end
