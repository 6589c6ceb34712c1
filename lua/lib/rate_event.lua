-- Events of a policy's keys, joined by \31: kind (1 warned, 2 throttled, 3 banned, 4 unbanned),
-- time, the tier's above (empty without a tier), the count with the call, ban end and strikes
-- (0 without a ban), key, reason, actor. Kinds 1 to 3 equal the verdicts.
local BANNED_EVENT, UNBANNED_EVENT = 3, 4
-- Events kept per shard, at least; twin of src/rate/log.rs.
local HISTORY = 1000
local NO_BAN = { ends = 0, strikes = 0, reason = '' }

-- Appends an event to the history of the key's shard. `above` and `count` are nil without a
-- tier, `ban` is nil without a ban.
local function log_rate_event(events_key, kind, subject, now, above, count, ban, actor)
  ban = ban or NO_BAN
  local text = format(
    '%d\31%.0f\31%s\31%.0f\31%.0f\31%.0f\31%s\31%s\31%s',
    kind, now, above and format('%.0f', above) or '', count or 0, ban.ends, ban.strikes, subject, ban.reason, actor
  )
  log_events(events_key, HISTORY, now, text)
end
