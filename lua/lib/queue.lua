-- Who waits, in order of arrival; the twin of src/waiting/queue.rs.
--
-- queue   zset of waiters (device and task, or owner) by ticket: when they came, µs
-- places  hash: "p" and a waiter: "number until channel" of the call that waits,
--         "s" and a channel: until when its server is known to be there
--         "l" and a channel: that places of its were taken out of the way
--
-- A place whose call or server is there no longer is none. The ranks below the number
-- of free slots have their turn; each of the first HINT_MAX is told once, over its
-- server's channel. That is a hint: who is not told asks again when its server attends
-- to the queue.
local REAP_MAX, HINT_MAX = 100, 100
-- Beyond the longest wait, for a queue that nobody attends to.
local QUEUE_TTL, SLACK = '120000', 1000000

-- Number, end and channel of a waiter's place; nil when there is none.
local function read_place(places_key, waiter)
  return match(call('HGET', places_key, 'p' .. waiter) or '', '^(%d+) (%d+) (.+)$')
end

local function knows(places_key, channel, now)
  return (tonumber(call('HGET', places_key, 's' .. channel) or '') or 0) > now
end

local function vacate(queue_key, places_key, waiter)
  call('ZREM', queue_key, waiter)
  call('HDEL', places_key, 'p' .. waiter)
  if call('EXISTS', queue_key) == 0 then
    call('DEL', places_key)
  end
end

-- Takes places at the front that are none out of the way; how many there were.
local function reap(queue_key, places_key, now)
  for reaped = 0, REAP_MAX - 1 do
    local first = call('ZRANGE', queue_key, 0, 0)[1]
    local _, ends, channel = read_place(places_key, first or '')
    if not first or ends and tonumber(ends) > now and knows(places_key, channel, now) then
      return reaped
    end
    vacate(queue_key, places_key, first)
    if channel and call('EXISTS', places_key) == 1 then
      call('HSET', places_key, 'l' .. channel, '1')
    end
  end
  return REAP_MAX
end

-- How many of the first have been told, or are to be, where so many slots are free.
local function told_of(free)
  return math.min(math.max(free, 0), HINT_MAX)
end

-- Tells those from rank `told` on, where so many slots are free, that it is their turn.
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

-- Hands on slots that became free. It decides nothing, so it fails nobody's call.
local function hand_on(queue_key, places_key, was_free, free, now)
  if free > math.max(was_free, 0) and call('EXISTS', queue_key) == 1 then
    pcall(function()
      hint(queue_key, places_key, math.max(told_of(was_free) - reap(queue_key, places_key, now), 0), free)
    end)
  end
end

-- Gives up a place, if it is that call's; how many of the first `told` are left.
local function leave(queue_key, places_key, waiter, number, told)
  if read_place(places_key, waiter) ~= number then
    return told
  end
  local rank = call('ZRANK', queue_key, waiter)
  vacate(queue_key, places_key, waiter)
  return rank and rank < told and told - 1 or told
end

-- What a call says of its place: number, ticket (0: none yet), how long it waits (0:
-- no longer), how long its server is known without a word, both in ms, and channel.
local function parse_place(text)
  return match(text, '^(%d+) (%d+) (%d+) (%d+) (.+)$')
end
