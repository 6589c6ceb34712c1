-- Hints: whose turn it is is told so, each of the first HINT_MAX once, over its server's
-- channel. Who is not told asks again when its server attends to the queue.
local HINT_MAX = 100

-- How many of the first have been told, or are to be, where so many slots are free.
local function told_of(free)
  return math.min(math.max(free, 0), HINT_MAX)
end

-- Tells those from rank `told` on, where so many slots are free, that it is their turn.
local function hint(queue_key, places_key, told, free)
  -- Where more places may have lapsed, those at the front are told once they are gone.
  if told < told_of(free) and reaps > 0 then
    for _, waiter in ipairs(call('ZRANGE', queue_key, told, told_of(free) - 1)) do
      local number, _, channel = read_place(places_key, waiter)
      if number then
        pcall(call, 'PUBLISH', channel, number)
      end
    end
  end
end

-- A slot that ends so soon may end before servers attend to the queue again, in µs.
local SOON = 400000

-- Tells the first waiter of a slot that is granted for so long, if it ends soon: the waiter
-- asks when, and its server attends to the queue then. It decides nothing, so it fails nobody's
-- call.
local function tell_end(queue_key, places_key, length)
  if length <= SOON then
    pcall(hint, queue_key, places_key, 0, 1)
  end
end

-- Hands on slots that became free. It decides nothing, so it fails nobody's call.
local function hand_on(queue_key, places_key, was_free, free, now)
  if free > math.max(was_free, 0) and call('EXISTS', queue_key) == 1 then
    pcall(function()
      hint(queue_key, places_key, math.max(told_of(was_free) - reap(queue_key, places_key, now), 0), free)
    end)
  end
end

-- How many wait. What has lapsed at the front is not counted.
local function count_waiters(queue_key, places_key, free, now)
  if call('EXISTS', queue_key) == 1 then
    hint(queue_key, places_key, math.max(told_of(free) - reap(queue_key, places_key, now), 0), free)
  end
  return call('ZCARD', queue_key)
end
