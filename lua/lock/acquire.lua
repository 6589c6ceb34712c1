-- Grants an owner the lock if it is free and no other waiter comes first.
--
-- @include fencing lock ticket wake_ups
--
-- keys[1] lock string: the lock's record.
-- keys[2] queue zset: waiters by ticket.
-- keys[3] places hash: calls of the waiters, and their servers.
-- keys[4] tickets hash: kept tickets by waiter.
-- argv[1] owner 1..256 bytes.
-- argv[2] lease_ms ms, 1..2592000000.
-- argv[3] entry of the queue "number ticket wait_ms keep_ms kept_ms channel" (lib/ticket.lua), empty
--         for a call that never waits.
--
-- Returns {0 acquired, token, grant, expire}.
--         {1 replayed, token, grant, expire}.
--         {2 held, ticket (0: does not wait, 1: ask again), retry_after ms, holder or empty}.
-- Writes lock, TTL: the lease and 5 minutes; queue and places, TTL: 2 minutes; tickets,
--        TTL: kept_ms.
-- Cost O(log waiters): 40 µs. A script call removes at most 500 lapsed waiters: 2.4 ms.
local ACQUIRE_ACQUIRED, ACQUIRE_REPLAYED, ACQUIRE_HELD = 0, 1, 2
local RETRY_MIN = 50000

local function decide(keys, argv, now)
  local lock_key, queue_key, places_key, tickets_key = keys[1], keys[2], keys[3], keys[4]
  local owner, lease_ms, entry = argv[1], tonumber(argv[2]), argv[3]

  local lock = lock_read(lock_key)
  if lock_is_held_by(lock, owner, nil, now) then
    ticket_drop(queue_key, places_key, owner, entry, 0, now)
    if not lock.is_disclosed then
      lock.is_disclosed = true
      lock_write(lock_key, LOCK_HELD, lock, now)
    end
    return { ACQUIRE_REPLAYED, lock.token, lock.grant, lock.expire }
  end
  local held = lock_is_held(lock, now)
  local free = held and 0 or 1
  local proceeds, ticket = ticket_take_slot(queue_key, places_key, tickets_key, owner, entry, free, false, now)
  if not proceeds then
    local wait = held and lock.expire - now or RETRY_MIN
    return { ACQUIRE_HELD, ticket, math.ceil(wait / 1000), held and lock.owner or '' }
  end
  lock = { token = fencing_next_token(lock.token, now), grant = now, lease_ms = lease_ms, owner = owner }
  lock.expire = now + lease_ms * 1000
  lock_write(lock_key, LOCK_HELD, lock, now)
  wake_ups_announce_end(queue_key, places_key, lease_ms * 1000)
  return { ACQUIRE_ACQUIRED, lock.token, lock.grant, lock.expire }
end
