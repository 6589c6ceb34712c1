-- Kinds of a pool's events.
local ENQUEUED, ADMITTED, RENEWED, COMPLETED, LATE = '1', '2', '3', '4', '5'
local EXPIRED, EVICTED, CANCELLED, DEAD, CONFIGURED = '6', '7', '8', '9', '10'

-- Encodes an event: "kind token attempt outcome capacity time member". Outcome 0 is none; an
-- empty capacity means that the event has none.
local function event(kind, token, attempt, member, now, outcome, capacity)
  return kind .. ' ' .. digits(token) .. ' ' .. digits(attempt) .. ' ' .. (outcome or '0') .. ' '
    .. (capacity and digits(capacity) or '') .. ' ' .. digits(now) .. ' ' .. member
end
