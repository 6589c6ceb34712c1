-- Ends the owner's lease and wakes the first waiter.
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
local function decide(keys, argv, now)
  local lock_key, queue_key, places_key = keys[1], keys[2], keys[3]
  local owner, token = argv[1], tonumber(argv[2])

  local lock = read_lock(lock_key)
  if is_held_by(lock, owner, token, now) then
    lock.expire = now
    write_lock(lock_key, 'R', lock, now)
    hand_on(queue_key, places_key, 0, 1, now)
    return { 0 }
  end
  local released = lock.state == 'R' and now < lock.expire + RETENTION
  local same = released and lock.owner == owner and (not token or token == lock.token)
  return { same and 0 or 1 }
end
