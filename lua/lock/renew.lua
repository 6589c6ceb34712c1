-- Extends the owner's lease, counted from now.
--
-- @include lock
--
-- keys[1] lock string: the lock's record.
-- argv[1] owner 1..256 bytes.
-- argv[2] token the lease's fencing token, empty to accept any.
-- argv[3] lease_ms ms, 1..2592000000, empty for the last duration.
--
-- Returns {0 renewed, token, grant, expire}.
--         {1 not held}.
-- Writes lock, TTL: the lease and 5 minutes.
-- Cost O(1).
local RENEW_RENEWED, RENEW_NOT_HELD = 0, 1

local function decide(keys, argv, now)
  local lock_key = keys[1]
  local owner, token, lease_ms = argv[1], tonumber(argv[2]), tonumber(argv[3])

  local lock = lock_read(lock_key)
  if not lock_is_held_by(lock, owner, token, now) then
    return { RENEW_NOT_HELD }
  end
  lock.lease_ms, lock.is_disclosed = lease_ms or lock.lease_ms, true
  lock.expire = now + lock.lease_ms * 1000
  lock_write(lock_key, LOCK_HELD, lock, now)
  return { RENEW_RENEWED, lock.token, lock.grant, lock.expire }
end
