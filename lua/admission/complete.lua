-- Stores a task's result and frees the slot of its lease.
--
-- @include changes expiry leases pool pool_event queued task wake_ups
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
-- keys[10] task_key string: task record.
-- argv[1] capacity default, 0..1000000.
-- argv[2] lease_ms default, ms, 100..86400000.
-- argv[3] grace_ms default, ms, 0..2592000000.
-- argv[4] paused default, 0 or 1.
-- argv[5] max_attempts default, 1..1000.
-- argv[6] retention_ms ms, 60000..2592000000.
-- argv[7] history events kept at least, 100..1000000.
-- argv[8] member device and task, joined by \31.
-- argv[9] token the lease's fencing token, empty to accept any.
-- argv[10] outcome 1 succeeded, 2 failed.
-- argv[11] result 0..65536 bytes.
-- Shared keys[1..9], argv[1..7]
--
-- Returns {0 completed, capacity, in_use}.
--         {1 already completed, capacity, in_use}.
--         {2 late, capacity, in_use}.
--         {3 stale token, capacity, in_use}.
--         {4 unknown, capacity, in_use}.
-- Writes task, TTL: the retention; leases, queue and places (removes); queued, backlog and
--        due, permanent; events, TTL: 24 h.
-- Cost O(log leases + log waiters + log queued): 15 µs, 95 µs with a result of 64 KiB. A script call
--      removes at most 500 lapsed waiters: 2.4 ms.
local COMPLETE_COMPLETED, COMPLETE_ALREADY_COMPLETED, COMPLETE_LATE = 0, 1, 2
local COMPLETE_STALE_TOKEN, COMPLETE_UNKNOWN = 3, 4
-- An outcome.
local FAILED = '2'
local read_shared, REPLY = pool_open, '<I8I8I8'

local function write(pool, now)
  changes_write(pool, now)
  wake_ups_hand_on(pool.queue, pool.places, pool.capacity - pool.was_in_use, pool.capacity - pool.in_use, now)
  pool.was_in_use = pool.in_use
end

local function decide(pool, now, task_key, member, token, outcome, result)
  local capacity, task = pool.capacity, pool_task(pool, task_key, member, now)
  if not task or task.state == TASK_NEW then
    return pack(REPLY, COMPLETE_UNKNOWN, capacity, pool.in_use)
  elseif token ~= '' and tonumber(token) ~= task.token then
    return pack(REPLY, COMPLETE_STALE_TOKEN, capacity, pool.in_use)
  elseif task.state == TASK_DONE or task.state == TASK_FAILED then
    return pack(REPLY, COMPLETE_ALREADY_COMPLETED, capacity, pool.in_use)
  end

  local running, news, standing = task.state == TASK_LEASED and now < task.expire, pool.news, nil
  if expiry_is_lapsed(pool, member, task, now) then
    write(pool, now)
    expiry_end_lease(pool, member, task, now)
    news = pool.news
  end
  local kind = running and POOL_EVENT_COMPLETED or POOL_EVENT_LATE
  news[#news + 1] = pool_event(kind, task.token, task.attempt, member, now, outcome)
  local again = task.standing and outcome == FAILED
  if again then
    standing, news[#news + 1] = expiry_standing(pool, member, task, now)
  end
  if leases_holds_slot(pool, member, task, now) then
    changes_list_lease(pool, leases_encode(member, task), false)
  end
  if task.standing then
    write(pool, now)
  end
  if again then
    task.state = TASK_FAILED
    expiry_end_attempt(pool, member, task, standing, now)
  else
    if task.standing then
      queued_drop(pool, member, task)
    end
    local forget = now + pool.retention
    changes_put_record(pool, task_key, task_encode(TASK_DONE, task, forget, outcome .. result), forget, now)
  end
  return pack(REPLY, running and COMPLETE_COMPLETED or COMPLETE_LATE, capacity, pool.in_use)
end
