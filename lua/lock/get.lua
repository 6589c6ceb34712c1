-- Reads who holds the lock and how many wait.
--
-- keys[1] lock string: the lock's record
-- keys[2] queue zset: who waits, by ticket
--
-- Returns {0 free, waiters}
--         {1 held, waiters, token, grant, expire, owner}
-- Writes nothing
-- Cost O(1)
local function decide(keys, _, now)
  local lock_key, queue_key = keys[1], keys[2]
  local lock = read_lock(lock_key)
  local waiters = call('ZCARD', queue_key)
  if not is_held(lock, now) then
    return { 0, waiters }
  end
  return { 1, waiters, lock.token, lock.grant, lock.expire, lock.owner }
end
