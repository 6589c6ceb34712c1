-- Grants an owner the lock if it is free and no other waiter comes first.
--
-- keys[1] lock string: the lock's record.
-- keys[2] queue zset: waiters by ticket.
-- keys[3] places hash: calls of the waiters, and their servers.
-- keys[4] tickets hash: kept tickets by waiter.
-- argv[1] owner 1..256 bytes.
-- argv[2] lease_ms ms, 1..2592000000.
-- argv[3] place queue entry "number ticket wait_ms keep_ms kept_ms channel" (lib/turns.lua), empty
--         for a call that never waits.
--
-- Returns {0 acquired, token, grant, expire}.
--         {1 replayed, token, grant, expire}.
--         {2 held, ticket (0: does not wait, 1: ask again at once), retry_after ms, holder or empty}.
-- Writes lock, TTL: the lease and 5 minutes; queue and places, TTL: 2 minutes; tickets,
--        TTL: kept_ms.
-- Cost O(log waiters): 40 µs. A script call removes at most 500 lapsed waiters: 2.4 ms.
local RETRY_MIN = 50000

local function decide(keys, argv, now)
  local lock_key, queue_key, places_key, tickets_key = keys[1], keys[2], keys[3], keys[4]
  local owner, lease_ms, place = argv[1], tonumber(argv[2]), argv[3]

  local lock = read_lock(lock_key)
  if is_held_by(lock, owner, nil, now) then
    needs_no_turn(queue_key, places_key, owner, place, 0, now)
    return { 1, lock.token, lock.grant, lock.expire }
  end
  local held = is_held(lock, now)
  local free = held and 0 or 1
  local turn, ticket = take_turn(queue_key, places_key, tickets_key, owner, place, free, false, now)
  if not turn then
    local wait = held and lock.expire - now or RETRY_MIN
    return { 2, ticket, math.ceil(wait / 1000), held and lock.owner or '' }
  end
  lock = { token = next_token(lock.token, now), grant = now, lease_ms = lease_ms, owner = owner }
  lock.expire = now + lease_ms * 1000
  write_lock(lock_key, 'H', lock, now)
  tell_end(queue_key, places_key, lease_ms * 1000)
  return { 0, lock.token, lock.grant, lock.expire }
end
