-- Grants free locks: the plain form of lock/acquire.lua, for calls that do not wait and locks that
-- have no waiters.
--
-- @include fencing lock plain plain_lock
--
-- keys[1] lock string: the lock's record.
-- keys[2] queue zset: waiters by ticket.
-- argv[1] request owner, NUL-terminated; lease duration u64, ms, 1..2592000000.
-- Plain 4
--
-- Returns {0 acquired, token, grant, expire}.
--         {255, 0, 0, 0}: declined.
-- Writes lock, TTL: the lease and 5 minutes.
-- Cost O(1): 12 µs.
local ACQUIRED, NUMBERS = 0, '<I8I8I8I8'

local function acquire(key, text, owner, lease_ms)
  local last = lock_parse(text)
  if lock_is_held(last, now) then
    return nil
  end
  local token, expire = fencing_next_token(last.token, now), now + lease_ms * 1000
  local lock = { token = token, grant = now, expire = expire, lease_ms = lease_ms, owner = owner }
  return plain_lock_write(key, text, LOCK_HELD, lock) and pack(NUMBERS, ACQUIRED, token, now, expire)
end

local function decide(_, first, column, argument, number, items)
  plain_lock_row(first, first + column, number, items, pack(NUMBERS, PLAIN_DECLINED, 0, 0, 0), acquire)
end
