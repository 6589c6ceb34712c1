-- Waiters in order of arrival; twin of crates/core/src/waiting/queue.rs.
--
-- @include allowance
--
-- queue   zset of waiters (device and task, or owner) by ticket: their arrival, µs.
-- places  hash: "p" and a waiter: "number until channel" of its call.
--         "s" and a channel: until when its server counts as alive.
--         "l" and a channel: some of its server's waiters were removed.
--
-- A waiter has lapsed after the end of its call, or when its server is not alive. Waiters with
-- a rank below the number of free slots may proceed.

-- TTL in ms, longer than any wait: removes a queue without heartbeats. QUEUE_SLACK in µs: the last
-- attempt of a call may end this much later than its wait.
local QUEUE_TTL, QUEUE_SLACK = '120000', 1000000

-- Returns the number, end and channel of a waiter's call; nil if it has none.
local function queue_read_call(places_key, waiter)
  return match(call('HGET', places_key, 'p' .. waiter) or '', '^(%d+) (%d+) (.+)$')
end

-- Returns whether the server of a channel counts as alive.
local function queue_is_alive(places_key, channel, now)
  return (tonumber(call('HGET', places_key, 's' .. channel) or '') or 0) > now
end

local function queue_remove(queue_key, places_key, waiter)
  call('ZREM', queue_key, waiter)
  call('HDEL', places_key, 'p' .. waiter)
  if call('EXISTS', queue_key) == 0 then
    call('DEL', places_key)
  end
end

-- Removes lapsed waiters from the front, as long as the allowance lasts. Returns their number, and
-- whether lapsed waiters remain.
local function queue_reap(queue_key, places_key, now)
  local first = call('ZRANGE', queue_key, 0, 0)[1]
  local _, ends, channel = queue_read_call(places_key, first or '')
  if not first or ends and tonumber(ends) > now and queue_is_alive(places_key, channel, now) then
    return 0, false
  end
  -- One more than it may remove, to see whether lapsed waiters remain.
  local most = math.max(allowance, 0)
  local waiters, fields = call('ZRANGE', queue_key, 0, most), {}
  for i, waiter in ipairs(waiters) do
    fields[i] = 'p' .. waiter
  end
  local places = call('HMGET', places_key, unpack(fields))
  local reaped, more, known, lost, channels = 0, false, {}, {}, {}
  for i = 1, #waiters do
    ends, channel = match(places[i] or '', '^%d+ (%d+) (.+)$')
    if channel and known[channel] == nil then
      known[channel] = queue_is_alive(places_key, channel, now)
    end
    if channel and known[channel] and tonumber(ends) > now then
      break
    elseif i > most then
      more = true
      break
    elseif channel and not lost[channel] then
      lost[channel], channels[#channels + 1] = true, channel
    end
    reaped = i
  end
  if reaped == 0 then
    return 0, more
  end
  allowance = allowance - reaped
  call('ZREMRANGEBYRANK', queue_key, 0, reaped - 1)
  call('HDEL', places_key, unpack(fields, 1, reaped))
  if call('EXISTS', queue_key) == 0 then
    call('DEL', places_key)
  else
    for i = 1, #channels do
      call('HSET', places_key, 'l' .. channels[i], '1')
    end
  end
  return reaped, more
end

-- Removes a waiter if this call is still its latest call. Returns how many of the first `woken`
-- remain.
local function queue_leave(queue_key, places_key, waiter, number, channel, woken)
  local held, _, theirs = queue_read_call(places_key, waiter)
  if held ~= number or theirs ~= channel then
    return woken
  end
  local rank = call('ZRANK', queue_key, waiter)
  queue_remove(queue_key, places_key, waiter)
  return rank and rank < woken and woken - 1 or woken
end
