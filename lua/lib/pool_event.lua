-- An event of a pool, as it is stored.
local ENQUEUED, ADMITTED, RENEWED, COMPLETED, LATE = '1', '2', '3', '4', '5'
local EXPIRED, EVICTED, CANCELLED, DEAD, CONFIGURED = '6', '7', '8', '9', '10'

-- "kind token attempt outcome capacity time member": outcome 0 is none.
local function event(kind, token, attempt, member, now, outcome, capacity)
  return kind .. ' ' .. digits(token) .. ' ' .. digits(attempt) .. ' ' .. (outcome or '0') .. ' '
    .. (capacity and digits(capacity) or '') .. ' ' .. digits(now) .. ' ' .. member
end
