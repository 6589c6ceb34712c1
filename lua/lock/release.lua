-- Ends the owner's lease and wakes the first waiter.
--
-- @include lock wake_ups
--
-- keys[1] lock string: the lock's record.
-- keys[2] queue zset: waiters by ticket.
-- keys[3] places hash: calls of the waiters, and their servers.
-- argv[1] owner 1..256 bytes.
-- argv[2] token the lease's fencing token, empty to accept any.
--
-- Returns {0 released}, also for a repeat within 5 minutes.
--         {1 not held}.
-- Writes lock, TTL: 5 minutes; queue and places (removes).
-- Cost O(log waiters): 40 µs. A script call removes at most 500 lapsed waiters: 2.4 ms.
local RELEASE_RELEASED, RELEASE_NOT_HELD = 0, 1

local function decide(keys, argv, now)
  local lock_key, queue_key, places_key = keys[1], keys[2], keys[3]
  local owner, token = argv[1], tonumber(argv[2])

  local lock = lock_read(lock_key)
  if lock_is_held_by(lock, owner, token, now) then
    lock.expire = now
    lock_write(lock_key, LOCK_RELEASED, lock, now)
    wake_ups_hand_on(queue_key, places_key, 0, 1, now)
    return { RELEASE_RELEASED }
  end
  local released = lock.state == LOCK_RELEASED and now < lock.expire + LOCK_RETENTION
  local same = released and lock.owner == owner and (not token or token == lock.token)
  return { same and RELEASE_RELEASED or RELEASE_NOT_HELD }
end
