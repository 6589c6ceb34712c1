-- Wake-ups tell waiters over their server's channel that they may proceed. Each of the first
-- WAKE_UPS_MAX waiters gets one. The next heartbeat replaces a lost wake-up.
--
-- @include queue
local WAKE_UPS_MAX = 100

-- Returns how many waiters at the front get a wake-up while `free` slots are free.
local function wake_ups_due(free)
  return math.min(math.max(free, 0), WAKE_UPS_MAX)
end

-- Wakes the waiters that may proceed, from rank `woken` on.
local function wake_ups_send(queue_key, places_key, woken, free)
  if woken < wake_ups_due(free) then
    for _, waiter in ipairs(call('ZRANGE', queue_key, woken, wake_ups_due(free) - 1)) do
      local number, _, channel = queue_read_call(places_key, waiter)
      if number then
        pcall(call, 'PUBLISH', channel, number)
      end
    end
  end
end

-- Removes lapsed waiters from the front, then wakes the waiters that may proceed, from rank `woken`
-- on. If lapsed waiters remain, wakes none: the call that removes them does.
-- Returns whether lapsed waiters remain.
local function wake_ups_reap(queue_key, places_key, woken, free, now)
  local reaped, more = queue_reap(queue_key, places_key, now)
  if not more then
    wake_ups_send(queue_key, places_key, math.max(woken - reaped, 0), free)
  end
  return more
end

-- A slot that ends within this time (µs) may end before the next heartbeat.
local WAKE_UPS_SOON = 400000

-- Wakes the first waiter if a lease of `length` µs is short: the waiter asks when the slot ends,
-- and its server then sends a heartbeat in time. A failure here never makes the call fail, because
-- wake-ups decide nothing.
local function wake_ups_announce_end(queue_key, places_key, length)
  if length <= WAKE_UPS_SOON then
    pcall(wake_ups_send, queue_key, places_key, 0, 1)
  end
end

-- Wakes waiters for slots that became free. Never makes the call fail.
local function wake_ups_hand_on(queue_key, places_key, was_free, free, now)
  if free > math.max(was_free, 0) and call('EXISTS', queue_key) == 1 then
    pcall(wake_ups_reap, queue_key, places_key, wake_ups_due(was_free), free, now)
  end
end

-- Returns the number of waiters, without lapsed ones at the front.
local function wake_ups_count_waiters(queue_key, places_key, free, now)
  if call('EXISTS', queue_key) == 1 then
    wake_ups_reap(queue_key, places_key, wake_ups_due(free), free, now)
  end
  return call('ZCARD', queue_key)
end
