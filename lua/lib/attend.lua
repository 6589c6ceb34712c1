-- Heartbeat of a server for its waiters.

-- Most waiters of one reply that may proceed.
local TURNS_MAX = 100

-- Renews the server of a channel, and removes the waiter of a call that gave up (`gone`).
-- `reply` has the status and the ms until a slot ends. Appends 1 if the server's waiters must
-- ask again, because some were removed or the server had lapsed, else 0. Then appends call
-- number and waiter of its waiters that may proceed; wakes those of other servers.
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
  if reap_and_hint(queue_key, places_key, told, free, now) then
    reply[2] = 1 -- 1 ms: more waiters have lapsed
  end
  if free > 0 then
    for _, waiter in ipairs(call('ZRANGE', queue_key, 0, math.min(free, TURNS_MAX) - 1)) do
      local of, _, theirs = read_place(places_key, waiter)
      if theirs == channel then
        reply[#reply + 1], reply[#reply + 2] = of, waiter
      elseif theirs then
        -- Their server may not have noticed yet that a lease has expired.
        pcall(call, 'PUBLISH', theirs, of)
      end
    end
  end
  return reply
end
