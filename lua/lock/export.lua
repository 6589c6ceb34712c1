-- Reads the record of a lock, for an export.
--
-- @include lock
--
-- keys[1] lock string: the lock's record.
--
-- Returns {0, '' the only page}: no record.
--         {0, '', '' letter, owner, token, grant, expire, lease_ms, released 0 or 1}.
-- Writes nothing.
-- Cost O(1): 10 µs.
local function decide(keys, _, now)
  local lock_key = keys[1]
  local lock = lock_read(lock_key)
  if not lock.state or lock_kept_until(lock) <= now then
    return { OK, '' }
  end
  local released = lock.state == LOCK_RELEASED and 1 or 0
  return { OK, '', '', lock.owner, lock.token, lock.grant, lock.expire, lock.lease_ms, released }
end
