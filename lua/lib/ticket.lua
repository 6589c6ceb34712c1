-- Tickets of waiters: their positions in the queue, for the scripts that grant.
--
-- @include queue wake_ups
--
-- tickets  hash by waiter of "ticket until", for waiters whose server is shutting down. They are not in the
--          queue, so they block nobody; a waiter whose next call arrives in time gets its ticket.

-- Splits a call's entry: number, ticket (0: none yet), wait_ms (0: does not wait), keep_ms (its server
-- counts as alive), kept_ms (the ticket is kept if the call ends without a slot), channel.
local function ticket_parse(text)
  return match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (.+)$')
end

-- Returns the call's own ticket, or the one kept for its waiter. A kept ticket is deleted.
local function ticket_claim(tickets_key, waiter, ticket, now)
  local fine, text = pcall(call, 'HGET', tickets_key, waiter)
  local kept, ends = match(fine and text or '', '^(%d+) (%d+)$')
  if kept then
    call('HDEL', tickets_key, waiter)
  end
  return ticket == '0' and kept and tonumber(ends) > now and kept or ticket
end

-- Keeps a ticket for kept_ms. Never makes the call fail, since a ticket only affects the order.
local function ticket_keep(tickets_key, waiter, ticket, kept_ms, now)
  pcall(function()
    call('HSET', tickets_key, waiter, format('%.0f %.0f', ticket, now + kept_ms * 1000))
    call('PEXPIRE', tickets_key, kept_ms)
  end)
end

local function ticket_next(queue_key, now)
  local last = call('ZREVRANGE', queue_key, 0, 0, 'WITHSCORES')[2]
  return math.max(now, (tonumber(last) or 0) + 1)
end

-- Adds the waiter, or updates its call. Returns its ticket.
local function ticket_enter(queue_key, places_key, waiter, number, ticket, wait_ms, keep_ms, channel, now)
  local held = tonumber(call('ZSCORE', queue_key, waiter) or '')
  ticket = held or tonumber(ticket)
  if ticket == 0 then
    ticket = ticket_next(queue_key, now)
  end
  local ends = now + tonumber(wait_ms) * 1000 + QUEUE_SLACK
  local entry = format('%s %.0f %s', number, ends, channel)
  -- This comes first, since it fails if `places` has another type; the type of `queue` is known.
  call('HSET', places_key, 'p' .. waiter, entry, 's' .. channel, format('%.0f', now + keep_ms * 1000))
  if not held then
    call('ZADD', queue_key, format('%.0f', ticket), waiter)
  end
  call('PEXPIRE', queue_key, QUEUE_TTL)
  call('PEXPIRE', places_key, QUEUE_TTL)
  return ticket
end

-- Returned instead of a ticket: ask again immediately, since more lapsed waiters may be in front.
local TICKET_AGAIN = 1

-- Returns whether the caller may take a free slot; if not, also its ticket, 0 if it does not wait, or
-- TICKET_AGAIN. A call that may barge ignores the order.
local function ticket_take_slot(queue_key, places_key, tickets_key, waiter, entry, free, barging, now)
  local waiting = call('EXISTS', queue_key) == 1
  local number, asked, wait_ms, keep_ms, kept_ms, channel = ticket_parse(entry)
  local waits = number and wait_ms ~= '0'
  local leaves = number and not waits and kept_ms ~= '0'
  if asked == '0' or leaves then
    asked = ticket_claim(tickets_key, waiter, asked, now)
  end
  if not waiting and free > 0 then
    return true, 0
  elseif not waiting and not waits and not leaves then
    return false, 0
  end
  local held_ticket = leaves and call('ZSCORE', queue_key, waiter)
  local ticket = waits
    and ticket_enter(queue_key, places_key, waiter, number, asked, wait_ms, keep_ms, channel, now) or 0
  local reaped, more = queue_reap(queue_key, places_key, now)
  local woken = math.max(wake_ups_due(free) - reaped, 0)
  local rank = call('ZRANK', queue_key, waiter) or call('ZCARD', queue_key)
  local proceeds = rank < free or barging and free > 0
  local holder, _, holders_channel = queue_read_call(places_key, waiter)
  local elsewhere = holder and (holder ~= number or holders_channel ~= channel)
  if holder and (proceeds or not elsewhere and not waits) then
    woken = queue_leave(queue_key, places_key, waiter, holder, holders_channel, woken)
    if elsewhere then
      -- Another call of the same waiter has the ticket: wake that call, which gets the same lease.
      pcall(call, 'PUBLISH', holders_channel, holder)
    end
  end
  -- If lapsed waiters remain, the call that removes them wakes the next waiters.
  wake_ups_send(queue_key, places_key, woken, more and 0 or proceeds and free - 1 or free)
  if leaves and not proceeds and not elsewhere then
    ticket = tonumber(held_ticket or asked)
    ticket_keep(tickets_key, waiter, ticket > 0 and ticket or ticket_next(queue_key, now), kept_ms, now)
    ticket = 0
  end
  if not proceeds and not waits and free > 0 and more then
    ticket = TICKET_AGAIN
  end
  return proceeds, proceeds and 0 or ticket
end

-- Removes the waiter of a call that was answered without a free slot.
local function ticket_drop(queue_key, places_key, waiter, entry, free, now)
  local number, _, _, _, _, channel = ticket_parse(entry)
  if number and call('EXISTS', queue_key) == 1 then
    local woken = queue_leave(queue_key, places_key, waiter, number, channel, wake_ups_due(free))
    wake_ups_reap(queue_key, places_key, woken, free, now)
  end
end
