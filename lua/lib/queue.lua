-- Who waits, in order of arrival; the twin of src/waiting/queue.rs.
--
-- queue   zset of waiters (device and task, or owner) by ticket: when they came, µs
-- places  hash: "p" and a waiter: "number until channel" of the call that waits,
--         "s" and a channel: until when its server is known to be there
--         "l" and a channel: that places of its were taken out of the way
--
-- A place whose call or server is there no longer is none. The ranks below the number
-- of free slots have their turn.
local REAP_MAX = 500
-- How many more this call of the script, with all its items, takes out of the way.
local reaps = REAP_MAX
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

-- Takes places at the front that are none out of the way, at most REAP_MAX; how many
-- there were, REAP_MAX also where this call of the script may take out no more.
local function reap(queue_key, places_key, now)
  local first = call('ZRANGE', queue_key, 0, 0)[1]
  local _, ends, channel = read_place(places_key, first or '')
  if not first or ends and tonumber(ends) > now and knows(places_key, channel, now) then
    return 0
  elseif reaps == 0 then
    return REAP_MAX
  end
  local waiters, fields = call('ZRANGE', queue_key, 0, reaps - 1), {}
  for i, waiter in ipairs(waiters) do
    fields[i] = 'p' .. waiter
  end
  local places = call('HMGET', places_key, unpack(fields))
  local reaped, known, lost, channels = 0, {}, {}, {}
  for i = 1, #waiters do
    ends, channel = match(places[i] or '', '^%d+ (%d+) (.+)$')
    if channel and known[channel] == nil then
      known[channel] = knows(places_key, channel, now)
    end
    if channel and known[channel] and tonumber(ends) > now then
      break
    elseif channel and not lost[channel] then
      lost[channel], channels[#channels + 1] = true, channel
    end
    reaped = i
  end
  reaps = reaps - reaped
  call('ZREMRANGEBYRANK', queue_key, 0, reaped - 1)
  call('HDEL', places_key, unpack(fields, 1, reaped))
  if call('EXISTS', queue_key) == 0 then
    call('DEL', places_key)
  else
    for i = 1, #channels do
      call('HSET', places_key, 'l' .. channels[i], '1')
    end
  end
  return reaps == 0 and REAP_MAX or reaped
end

-- Gives up a place, if it is that call's; how many of the first `told` are left.
local function leave(queue_key, places_key, waiter, number, channel, told)
  local held, _, theirs = read_place(places_key, waiter)
  if held ~= number or theirs ~= channel then
    return told
  end
  local rank = call('ZRANK', queue_key, waiter)
  vacate(queue_key, places_key, waiter)
  return rank and rank < told and told - 1 or told
end
