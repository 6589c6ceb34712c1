-- Ends a lease whose caller had disconnected before the answer was written, unless it is disclosed
-- (lib/lock.lua).
--
-- @include lock wake_ups
--
-- keys[1] lock string: the lock's record.
-- keys[2] queue zset: waiters by ticket.
-- keys[3] places hash: calls of the waiters, and their servers.
-- argv[1] owner 1..256 bytes.
-- argv[2] token the lease's fencing token.
--
-- Returns {0 revoked: the lease does not hold the lock}.
--         {1 it stays}.
-- Writes lock, TTL: 5 minutes; queue and places (removes).
-- Cost O(log waiters): 40 µs. A script call removes at most 500 lapsed waiters: 2.4 ms.
local REVOKE_REVOKED, REVOKE_STAYS = 0, 1

local function decide(keys, argv, now)
  local lock_key, queue_key, places_key = keys[1], keys[2], keys[3]
  local owner, token = argv[1], tonumber(argv[2])

  local lock = lock_read(lock_key)
  if not lock_is_held_by(lock, owner, token, now) then
    return { REVOKE_REVOKED }
  elseif lock.is_disclosed then
    return { REVOKE_STAYS }
  end
  lock.expire = now
  lock_write(lock_key, LOCK_RELEASED, lock, now)
  wake_ups_hand_on(queue_key, places_key, 0, 1, now)
  return { REVOKE_REVOKED }
end
