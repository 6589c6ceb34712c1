-- Ends leases of locks: the plain form of lock/release.lua, for calls of the holder and locks that
-- have no waiters.
--
-- @include lock plain plain_lock
--
-- keys[1] lock string: the lock's record.
-- keys[2] queue zset: waiters by ticket.
-- argv[1] request owner, NUL-terminated; the lease's fencing token u64, 0 to accept any.
-- Plain 1
--
-- Returns {0 released}.
--         {255}: declined.
-- Writes lock, TTL: 5 minutes.
-- Cost O(1): 12 µs.
local RELEASED, NUMBERS = 0, '<I8'

local function release(key, text, owner, token)
  local lock = lock_parse(text)
  if not lock_is_held_by(lock, owner, token > 0 and token or nil, now) then
    return nil
  end
  lock.expire = now
  return plain_lock_write(key, text, LOCK_RELEASED, lock) and pack(NUMBERS, RELEASED)
end

local function decide(_, first, column, argument, number, items)
  plain_lock_row(first, first + column, number, items, pack(NUMBERS, PLAIN_DECLINED), release)
end
