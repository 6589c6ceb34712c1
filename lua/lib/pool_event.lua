-- Kinds of a pool's events.
--
-- @include digits events
local POOL_EVENT_ENQUEUED, POOL_EVENT_ADMITTED, POOL_EVENT_RENEWED = '1', '2', '3'
local POOL_EVENT_COMPLETED, POOL_EVENT_LATE, POOL_EVENT_EXPIRED = '4', '5', '6'
local POOL_EVENT_EVICTED, POOL_EVENT_CANCELLED, POOL_EVENT_DEAD, POOL_EVENT_CONFIGURED = '7', '8', '9', '10'

-- Encodes an event, which the caller appends: "kind token attempt outcome capacity time member".
-- Outcome 0 is none; an empty capacity means that the event has none.
local function pool_event(kind, token, attempt, member, now, outcome, capacity)
  return kind .. ' ' .. digits(token) .. ' ' .. digits(attempt) .. ' ' .. (outcome or '0') .. ' '
    .. (capacity and digits(capacity) or '') .. ' ' .. digits(now) .. ' ' .. member
end

-- Appends events of a pool, `ended` of which are ends of leases, and counts those. If Redis refuses
-- the write, nothing is counted.
local function pool_event_append(pool, now, events, ended)
  events_append(pool.events, pool.history, now, unpack(events))
  expired_leases = expired_leases + ended
end
