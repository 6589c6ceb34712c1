-- Stores a task's result and frees the slot of its lease.
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
local share, REPLY = open_pool, '<I8I8I8'

local function write(pool, now)
  write_pool(pool, now)
  hand_on(pool.queue, pool.places, pool.capacity - pool.was_in_use, pool.capacity - pool.in_use, now)
  pool.was_in_use = pool.in_use
end

local function decide(pool, now, task_key, member, token, outcome, result)
  local capacity, task = pool.capacity, known_task(pool, task_key, member, now)
  if not task or task.state == 'N' then
    return pack(REPLY, 4, capacity, pool.in_use)
  elseif token ~= '' and tonumber(token) ~= task.token then
    return pack(REPLY, 3, capacity, pool.in_use)
  elseif task.state == 'D' or task.state == 'F' then
    return pack(REPLY, 1, capacity, pool.in_use)
  end

  local running, news, standing = task.state == 'L' and now < task.expire, pool.news, nil
  if is_lapsed(pool, member, task, now) then
    write(pool, now)
    expire(pool, member, task, now)
    news = pool.news
  end
  news[#news + 1] = event(running and COMPLETED or LATE, task.token, task.attempt, member, now, outcome)
  local again = task.standing and outcome == '2'
  if again then
    standing, news[#news + 1] = fate(pool, member, task, now)
  end
  if holds_slot(pool, member, task, now) then
    list_lease(pool, lease_member(member, task), false)
  end
  if task.standing then
    write(pool, now)
  end
  if again then
    task.state = 'F'
    end_attempt(pool, member, task, standing, now)
  else
    if task.standing then
      drop_queued(pool, member, task)
    end
    local forget = now + pool.retention
    put_record(pool, task_key, task_record('D', task, forget, outcome .. result), forget, now)
  end
  return pack(REPLY, running and 0 or 2, capacity, pool.in_use)
end
