-- Parts of AdmitTask: its statuses, its retry delays, and the choice of the task that a call admits.
--
-- @include allowance changes expiry pool queued spread task ticket
local ADMIT_GRANTED, ADMIT_REPLAYED, ADMIT_FULL, ADMIT_NO_TASK, ADMIT_PAUSED, ADMIT_FINISHED = 0, 1, 2, 3, 4, 5
local ADMIT_LIMITED = 6
-- Formats of replies with 3, 4 and 6 numbers.
local ADMIT_NUMBERS3, ADMIT_NUMBERS4, ADMIT_NUMBERS6 = '<I8I8I8', '<I8I8I8I8', '<I8I8I8I8I8I8'
-- Retry delays, µs: for a paused pool, and for a pool whose free slots are reserved for waiters.
local ADMIT_PAUSED_RETRY, ADMIT_RESERVED_RETRY = 10 * 1000000, 50 * 1000

-- Ends a queued task whose deadline has passed or whose attempts are used up, and its lease if
-- the reclaim left expired ones. Returns true if the task left the queue.
local function admit_end_if_over(pool, member, task, now)
  changes_write(pool, now)
  if pool.ended > 0 and expiry_is_lapsed(pool, member, task, now) then
    expiry_end_lease(pool, member, task, now)
    pool.stale = true -- pool.ended is now one too many
  else
    expiry_leave_if_over(pool, member, task, now)
  end
  return task.standing ~= QUEUED_WAITING
end

-- Returns member and record of the device's oldest queued task; the record is nil if there is none.
-- Removes at least one expired task. The third result is true if the allowance is spent, so that
-- more expired tasks may remain.
local function admit_oldest_task(pool, device, now)
  local from, to = '[' .. device .. '\31', '(' .. device .. ' '
  repeat
    local line = call('ZRANGEBYLEX', pool.backlog, from, to, 'LIMIT', 0, 1)[1]
    if not line then
      return device .. '\31', nil, false
    end
    local member = device .. '\31' .. string.sub(line, #device + 19)
    local task = queued_read(pool, member, now)
    if not task or task.standing ~= QUEUED_WAITING then
      call('ZREM', pool.backlog, line) -- the task has no queued record
    elseif not admit_end_if_over(pool, member, task, now) then
      return member, task, false
    end
    allowance = allowance - ALLOWANCE_TASK
  until allowance <= 0
  return device .. '\31', nil, true
end

-- Returns the same for a task that the call names.
local function admit_named_task(pool, member, task_key, now)
  local task = pool_task(pool, task_key, member, now)
  if task and (task.standing or pool.ended > 0) then
    admit_end_if_over(pool, member, task, now)
  end
  return member, task, false
end

-- Encodes the reply for a task with a lease; `payload` is that of a queued task.
local function admit_reply(status, capacity, in_use, member, task, payload)
  if not task.standing then
    return pack(ADMIT_NUMBERS6, status, capacity, in_use, task.token, task.grant, task.expire)
  end
  local name = match(member, '\31(.*)$')
  return { status, capacity, in_use, task.token, task.grant, task.expire, task.attempt, name, payload }
end

-- Returns the reply if the call needs no free slot, else nil. `own` is 1 if the task has a slot.
local function admit_without_slot(pool, member, task, named, own, seed, now)
  local capacity, in_use = pool.capacity, pool.in_use
  if own == 1 and now < task.expire then
    local payload = task.standing and queued_payload(pool, member, task)
    return admit_reply(ADMIT_REPLAYED, capacity, in_use, member, task, payload)
  elseif task and (task.state == TASK_DONE or (task.standing or QUEUED_WAITING) ~= QUEUED_WAITING) then
    return pack(ADMIT_NUMBERS3, ADMIT_FINISHED, capacity, in_use)
  elseif not task and named == '' then
    return pack(ADMIT_NUMBERS3, ADMIT_NO_TASK, capacity, in_use)
  elseif pool.paused == 1 or capacity == 0 then
    return pack(ADMIT_NUMBERS4, ADMIT_PAUSED, capacity, in_use, spread(ADMIT_PAUSED_RETRY, seed, now))
  elseif pool.is_held then
    return pack(ADMIT_NUMBERS4, ADMIT_PAUSED, capacity, in_use, spread(pool.failover.held - now, seed, now))
  elseif pool.is_limited and own == 0 and in_use < capacity then
    return pack(ADMIT_NUMBERS3, ADMIT_LIMITED, capacity, in_use)
  elseif own == 1 and expiry_is_over(pool, task, now) then
    -- The last attempt still holds this slot, so no other task gets it before slot_end.
    return pack(ADMIT_NUMBERS6, ADMIT_FULL, capacity, in_use, spread(task.slot_end - now, seed, now), 0, 0)
  elseif pool.ended > 0 and capacity - in_use + own > 0 and in_use - own + pool.ended >= capacity then
    -- Expired leases are logged first.
    return pack(ADMIT_NUMBERS6, ADMIT_FULL, capacity, in_use, 1, TICKET_AGAIN, 0)
  end
end

-- Returns the µs until a lease ends and frees a slot, false if none does. After that
-- end capacity - 1 leases remain.
local function admit_until_free(pool, now)
  if pool.until_free == nil then
    changes_write(pool, now)
    local last = call('ZREVRANGE', pool.leases, pool.capacity - 1, pool.capacity - 1, 'WITHSCORES')[2]
    pool.until_free = last and tonumber(last) - now or false
  end
  return pool.until_free
end

local function admit_has_waiters(pool)
  pool.waiters = pool.waiters or call('EXISTS', pool.queue)
  return pool.waiters == 1
end
