-- Grants a task a lease if the pool has a free slot and no other waiter comes first.
--
-- @include admit changes expiry failover fencing full grant leases pool pool_event queued spread task
-- @include ticket wake_ups
--
-- keys[1] settings string: run-time settings.
-- keys[2] token string: token record (lib/token.lua).
-- keys[3] leases zset: leases by slot end.
-- keys[4] events list: history of the pool.
-- keys[5] queued hash: records of queued tasks.
-- keys[6] backlog zset: queued tasks by device and age.
-- keys[7] due zset: queued tasks by when the sweeper must handle them.
-- keys[8] queue zset: waiters by ticket.
-- keys[9] places hash: calls of the waiters, and their servers.
-- keys[10] tickets hash: kept tickets by waiter.
-- keys[11] task_key string: task record.
-- argv[1] capacity default, 0..1000000.
-- argv[2] lease_ms default, ms, 100..86400000.
-- argv[3] grace_ms default, ms, 0..2592000000.
-- argv[4] paused default, 0 or 1.
-- argv[5] max_attempts default, 1..1000.
-- argv[6] retention_ms ms, 60000..2592000000.
-- argv[7] history events kept at least, 100..1000000.
-- argv[8] barging 1 if a call may take a free slot ahead of waiters, else 0.
-- argv[9] seen "primary_id ms changed" (lib/failover.lua), empty for a pool without failover holds.
-- argv[10] limited 1 if the namespace is at its limit of leases, else 0.
-- argv[11] device 1..256 bytes.
-- argv[12] named the task, 1..256 bytes, empty for the device's oldest queued task.
-- argv[13] asked_ms lease duration, ms, 100..86400000, empty for the pool's.
-- argv[14] seed 0..2^32-1, spreads retry_after.
-- argv[15] entry of the queue "number ticket wait_ms keep_ms kept_ms channel" (lib/ticket.lua), empty
--          for a call that never waits.
-- argv[16] lists 1 if a full answer lists the holders, for the denial cache; 0 for a call that waits.
-- Shared keys[1..10], argv[1..10]
--
-- Returns {0 granted, capacity, in_use, token, grant, expire, (attempt, task, payload) if queued}.
--         {1 replayed, the same}.
--         {2 full, capacity, in_use, retry_after ms, ticket (0: does not wait, 1: ask again
--          immediately), µs until the end of a lease frees a slot or 0, (leases) if listed}.
--         {3 no queued task, capacity, in_use}.
--         {4 paused, capacity 0, or failover hold: capacity, in_use, retry_after ms}.
--         {5 finished, or 6 a slot is free but the call must add no lease: capacity, in_use}.
-- Writes task, TTL: its slot end and retention; token, TTL: the pool's last slot end and retention,
--        with a primary id 30 days more; leases, TTL: the same and 24 h; queue and places, TTL: 2 minutes;
--        tickets, TTL: kept_ms; queued, backlog and due, permanent; events, TTL: 24 h.
-- Cost O(log leases + log waiters + log queued): 15 µs, 30 µs for a call that waits or lists holders, 150 µs for a
--      dispatch of 64 KiB. A script call spends one allowance, 3 ms, on expired entries (lib/allowance.lua).
local function read_shared(keys, argv, now, first, last)
  local pool = pool_open(keys, argv, now, first, last)
  pool.tickets, pool.barging, pool.is_limited = keys[10], argv[8] == '1', argv[10] == '1'
  failover_hold(pool, argv[9], now)
  pool.ended = expiry_reclaim(pool, call('ZCARD', pool.leases) - pool.in_use, now)
  return pool
end

local write = changes_write

local function decide(pool, now, task_key, device, named, asked_ms, seed, entry, lists)
  local waiter, member, task, more = device .. '\31' .. named, nil, nil, nil
  if named == '' then
    write(pool, now)
    member, task, more = admit_oldest_task(pool, device, now)
  else
    member, task, more = admit_named_task(pool, waiter, task_key, now)
  end

  local capacity, in_use = pool.capacity, pool.in_use
  local free, own = capacity - in_use, task and leases_holds_slot(pool, member, task, now) and 1 or 0
  local answer = more and pack(ADMIT_NUMBERS6, ADMIT_FULL, capacity, in_use, 1, TICKET_AGAIN, 0)
    or admit_without_slot(pool, member, task, named, own, seed, now)
  local proceeds, ticket = free > 0, 0
  if answer or own == 1 and free + own > 0 then
    proceeds = true
    if entry ~= '' then
      ticket_drop(pool.queue, pool.places, waiter, entry, free, now)
    end
  elseif entry ~= '' or admit_has_waiters(pool) then
    call('LLEN', pool.events) -- fails if it has another type
    pool.waiters = nil
    proceeds, ticket = ticket_take_slot(pool.queue, pool.places, pool.tickets, waiter, entry, free, pool.barging, now)
  end
  if answer then
    if own == 1 and now < task.expire and not task.is_disclosed then
      task.is_disclosed = true
      grant_write_record(pool, task_key, member, task, pool.last_token, now)
    end
    return answer
  elseif not proceeds then
    local wait = free <= 0 and admit_until_free(pool, now)
    return full_reply(pool, spread(wait or ADMIT_RESERVED_RETRY, seed, now), ticket, wait, lists, now)
  end

  local lease = task and task.standing and task or { attempt = 0 }
  local payload = lease.standing and queued_payload(pool, member, lease)
  if own == 1 then
    changes_replace_lease(pool, member, task, now)
  end
  lease.attempt = lease.standing and lease.attempt + 1 or 0
  -- An earlier lease of the task still holds this slot; revoking the new one would free it.
  lease.state, lease.is_disclosed = TASK_LEASED, own == 1
  lease.token, lease.grant = fencing_next_token(pool.last_token, now), now
  lease.expire = now + (tonumber(asked_ms) or pool.lease_ms) * 1000
  lease.slot_end = lease.expire + pool.grace_ms * 1000
  pool.news[#pool.news + 1] = pool_event(POOL_EVENT_ADMITTED, lease.token, lease.attempt, member, now, nil, capacity)
  grant_write_lease(pool, task_key, member, lease, lease.token, now)
  wake_ups_announce_end(pool.queue, pool.places, lease.slot_end - now)
  return admit_reply(ADMIT_GRANTED, capacity, pool.in_use, member, lease, payload)
end
