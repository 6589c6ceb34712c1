-- Turns of those that wait, for the scripts that grant.

-- tickets  hash, of waiters whose server ends: "ticket until". Such a waiter has no place, so
--          nobody waits for it; when it calls again in time its place is the ticket's.

-- What a call says of its place: number, ticket (0: none yet), how long it waits (0:
-- no longer), how long its server is known without a word, how long its ticket is kept when
-- it waits no longer and has no turn, all in ms, and channel.
local function parse_place(text)
  return match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (.+)$')
end

-- The ticket that a call asks with: its own, or the one that is kept for its waiter; it is
-- kept no longer.
local function claim_ticket(tickets_key, waiter, ticket, now)
  local fine, text = pcall(call, 'HGET', tickets_key, waiter)
  local kept, ends = match(fine and text or '', '^(%d+) (%d+)$')
  if kept then
    call('HDEL', tickets_key, waiter)
  end
  return ticket == '0' and kept and tonumber(ends) > now and kept or ticket
end

-- It decides nothing, so it fails nobody's call.
local function keep_ticket(tickets_key, waiter, ticket, kept_ms, now)
  pcall(function()
    call('HSET', tickets_key, waiter, format('%.0f %.0f', ticket, now + kept_ms * 1000))
    call('PEXPIRE', tickets_key, kept_ms)
  end)
end

local function next_ticket(queue_key, now)
  local last = call('ZREVRANGE', queue_key, 0, 0, 'WITHSCORES')[2]
  return math.max(now, (tonumber(last) or 0) + 1)
end

-- Takes a place, or keeps it; its ticket.
local function enter(queue_key, places_key, waiter, number, ticket, wait_ms, keep_ms, channel, now)
  local held = tonumber(call('ZSCORE', queue_key, waiter) or '')
  ticket = held or tonumber(ticket)
  if ticket == 0 then
    ticket = next_ticket(queue_key, now)
  end
  local ends = now + tonumber(wait_ms) * 1000 + SLACK
  local place = format('%s %.0f %s', number, ends, channel)
  -- First, as it fails where the places are of another type: the queue's was seen above.
  call('HSET', places_key, 'p' .. waiter, place, 's' .. channel, format('%.0f', now + keep_ms * 1000))
  if not held then
    call('ZADD', queue_key, format('%.0f', ticket), waiter)
  end
  call('PEXPIRE', queue_key, QUEUE_TTL)
  call('PEXPIRE', places_key, QUEUE_TTL)
  return ticket
end

-- In place of a ticket: to be asked again at once, since more may have lapsed before
-- the call than one step takes out of the way.
local AGAIN = 1

-- Whether it is a caller's turn to take one of the free slots; if not, the ticket of
-- its place, or 0 or AGAIN when it does not wait. A call that may barge needs no turn.
local function take_turn(queue_key, places_key, tickets_key, waiter, place, free, barging, now)
  local waiting = call('EXISTS', queue_key) == 1
  local number, asked, wait_ms, keep_ms, kept_ms, channel = parse_place(place)
  local waits = number and wait_ms ~= '0'
  local leaves = number and not waits and kept_ms ~= '0'
  if asked == '0' or leaves then
    asked = claim_ticket(tickets_key, waiter, asked, now)
  end
  if not waiting and free > 0 then
    return true, 0
  elseif not waiting and not waits and not leaves then
    return false, 0
  end
  local held_ticket = leaves and call('ZSCORE', queue_key, waiter)
  local ticket = waits and enter(queue_key, places_key, waiter, number, asked, wait_ms, keep_ms, channel, now) or 0
  local reaped = reap(queue_key, places_key, now)
  local told = math.max(told_of(free) - reaped, 0)
  local rank = call('ZRANK', queue_key, waiter) or call('ZCARD', queue_key)
  local turn = rank < free or barging and free > 0
  local holder, _, holders_channel = read_place(places_key, waiter)
  local elsewhere = holder and (holder ~= number or holders_channel ~= channel)
  if holder and (turn or not elsewhere and not waits) then
    told = leave(queue_key, places_key, waiter, holder, holders_channel, told)
    if elsewhere then
      -- Another call of the same waiter: it is answered with the same lease.
      pcall(call, 'PUBLISH', holders_channel, holder)
    end
  end
  hint(queue_key, places_key, told, turn and free - 1 or free)
  if leaves and not turn and not elsewhere then
    ticket = tonumber(held_ticket or asked)
    keep_ticket(tickets_key, waiter, ticket > 0 and ticket or next_ticket(queue_key, now), kept_ms, now)
    ticket = 0
  end
  if not turn and not waits and free > 0 and reaped == REAP_MAX then
    ticket = AGAIN
  end
  return turn, turn and 0 or ticket
end

-- Gives up the place of a call that needs none: what it asked for it had already.
local function needs_no_turn(queue_key, places_key, waiter, place, free, now)
  local number, _, _, _, _, channel = parse_place(place)
  if number and call('EXISTS', queue_key) == 1 then
    local told = leave(queue_key, places_key, waiter, number, channel, told_of(free))
    hint(queue_key, places_key, math.max(told - reap(queue_key, places_key, now), 0), free)
  end
end
