-- What a server does for those that wait on it.

-- Whose turn it is takes at most so many of one reply.
local TURNS_MAX = 100

-- Says that a channel's server is there, and takes a place that was given up out of the
-- way. Appends to `reply`, a status and when a slot ends, whether the server's calls have
-- to ask again (places of theirs are lost), then number and waiter of each of them whose
-- turn it is; the others' are told.
local function attend(queue_key, places_key, channel, keep_ms, gone, number, free, now, reply)
  local told = told_of(free)
  if gone ~= '' then
    told = leave(queue_key, places_key, gone, number, channel, told)
  end
  if call('EXISTS', queue_key) == 0 then
    reply[#reply + 1] = 1
    return reply
  end
  local lost = call('HDEL', places_key, 'l' .. channel) == 1
  reply[#reply + 1] = (lost or not knows(places_key, channel, now)) and 1 or 0
  call('HSET', places_key, 's' .. channel, format('%.0f', now + keep_ms * 1000))
  call('PEXPIRE', queue_key, QUEUE_TTL)
  call('PEXPIRE', places_key, QUEUE_TTL)
  local reaped = reap(queue_key, places_key, now)
  if reaped == REAP_MAX then
    reply[2] = 1 -- more may have lapsed
  end
  told = math.max(told - reaped, 0)
  hint(queue_key, places_key, told, free)
  if free > 0 then
    for _, waiter in ipairs(call('ZRANGE', queue_key, 0, math.min(free, TURNS_MAX) - 1)) do
      local of, _, theirs = read_place(places_key, waiter)
      if theirs == channel then
        reply[#reply + 1], reply[#reply + 2] = of, waiter
      elseif theirs then
        -- Their server may not know yet that a lease has lapsed.
        pcall(call, 'PUBLISH', theirs, of)
      end
    end
  end
  return reply
end
