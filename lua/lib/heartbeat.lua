-- Heartbeat of a server for its waiters.
--
-- @include queue wake_ups

-- Maximum number of waiters in one reply.
local HEARTBEAT_WAITERS_MAX = 100

-- Renews the server of a channel, and removes the waiter of a call that gave up (`gone`).
-- `reply` contains the status and the ms until a slot ends. Appends 1 if the server's waiters must
-- ask again, because some were removed or the server had lapsed, else 0. Then appends call
-- number and waiter of its waiters that may proceed; wakes those of other servers.
local function heartbeat(queue_key, places_key, channel, keep_ms, gone, number, free, now, reply)
  local woken = wake_ups_due(free)
  if gone ~= '' then
    woken = queue_leave(queue_key, places_key, gone, number, channel, woken)
  end
  if call('EXISTS', queue_key) == 0 then
    reply[#reply + 1] = 1
    return reply
  end
  local lost = call('HDEL', places_key, 'l' .. channel) == 1
  reply[#reply + 1] = (lost or not queue_is_alive(places_key, channel, now)) and 1 or 0
  call('HSET', places_key, 's' .. channel, format('%.0f', now + keep_ms * 1000))
  call('PEXPIRE', queue_key, QUEUE_TTL)
  call('PEXPIRE', places_key, QUEUE_TTL)
  if wake_ups_reap(queue_key, places_key, woken, free, now) then
    reply[2] = 1 -- 1 ms: more waiters have lapsed
  end
  if free > 0 then
    for _, waiter in ipairs(call('ZRANGE', queue_key, 0, math.min(free, HEARTBEAT_WAITERS_MAX) - 1)) do
      local of, _, theirs = queue_read_call(places_key, waiter)
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
