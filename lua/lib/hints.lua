-- Wake-ups tell waiters over their server's channel that they may proceed. Each of the first
-- HINT_MAX waiters gets one. The next heartbeat replaces a lost wake-up.
local HINT_MAX = 100

-- Returns how many waiters at the front have a wake-up while `free` slots are free.
local function told_of(free)
  return math.min(math.max(free, 0), HINT_MAX)
end

-- Wakes the waiters that may proceed, from rank `told` on.
local function hint(queue_key, places_key, told, free)
  if told < told_of(free) then
    for _, waiter in ipairs(call('ZRANGE', queue_key, told, told_of(free) - 1)) do
      local number, _, channel = read_place(places_key, waiter)
      if number then
        pcall(call, 'PUBLISH', channel, number)
      end
    end
  end
end

-- Removes lapsed waiters from the front, then wakes the waiters that may proceed; the first `told`
-- have already been woken. If lapsed waiters remain, wakes none: the call that removes them does.
-- Returns whether lapsed waiters remain.
local function reap_and_hint(queue_key, places_key, told, free, now)
  local reaped, more = reap(queue_key, places_key, now)
  if not more then
    hint(queue_key, places_key, math.max(told - reaped, 0), free)
  end
  return more
end

-- A slot that ends within this time (µs) may end before the next heartbeat.
local SOON = 400000

-- Wakes the first waiter if a lease of `length` µs is short: the waiter asks for the slot's end,
-- and its server then sends a heartbeat in time. A failure here never fails the call: wake-ups
-- decide nothing.
local function tell_end(queue_key, places_key, length)
  if length <= SOON then
    pcall(hint, queue_key, places_key, 0, 1)
  end
end

-- Wakes waiters for slots that became free. Never fails the call.
local function hand_on(queue_key, places_key, was_free, free, now)
  if free > math.max(was_free, 0) and call('EXISTS', queue_key) == 1 then
    pcall(reap_and_hint, queue_key, places_key, told_of(was_free), free, now)
  end
end

-- Returns the number of waiters, without lapsed ones at the front.
local function count_waiters(queue_key, places_key, free, now)
  if call('EXISTS', queue_key) == 1 then
    reap_and_hint(queue_key, places_key, told_of(free), free, now)
  end
  return call('ZCARD', queue_key)
end
