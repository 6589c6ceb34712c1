-- Parts of AdmitTask: retry delays, and the task that a call is about.
-- Formats of replies with 3, 4 and 6 numbers.
local NUMBERS3, NUMBERS4, NUMBERS6 = '<I8I8I8', '<I8I8I8I8', '<I8I8I8I8I8I8'
local PAUSED_RETRY = 10 * 1000000
local SPREAD_MIN, SPREAD_MAX = 50 * 1000, 5 * 1000000
-- Retry delay if a free slot is reserved for waiters, µs.
local KEPT_RETRY = 50 * 1000

-- Returns the delay in ms plus up to an eighth of it (50 ms to 5 s). Callers whose long waits
-- end together then return at different times, and no slot stays idle for long.
local function spread(wait, seed, now)
  local window = math.min(math.max(math.floor(wait / 8), SPREAD_MIN), SPREAD_MAX)
  return math.ceil((wait + (seed + now) % window) / 1000)
end

-- Ends a queued task whose deadline has passed or whose attempts are used up, and its lease if
-- `reclaim` left expired ones. Returns true if the task left the queue.
local function lapse(pool, member, task, now)
  write_pool(pool, now)
  if pool.ended > 0 and is_lapsed(pool, member, task, now) then
    expire(pool, member, task, now)
    pool.stale = true -- pool.ended is now one too many
  else
    leave_if_over(pool, member, task, now)
  end
  return task.standing ~= 'Q'
end

-- Returns member and record of the device's oldest queued task; the record is nil if there is
-- none. Removes at least one expired task. The third result is true if the allowance is spent
-- then, so that more may remain.
local function oldest_task(pool, device, now)
  local from, to = '[' .. device .. '\31', '(' .. device .. ' '
  repeat
    local line = call('ZRANGEBYLEX', pool.backlog, from, to, 'LIMIT', 0, 1)[1]
    if not line then
      return device .. '\31', nil, false
    end
    local member = device .. '\31' .. string.sub(line, #device + 19)
    local task = read_queued(pool, member, now)
    if not task or task.standing ~= 'Q' then
      call('ZREM', pool.backlog, line) -- the task has no queued record
    elseif not lapse(pool, member, task, now) then
      return member, task, false
    end
    allowance = allowance - TASK_COST
  until allowance <= 0
  return device .. '\31', nil, true
end

-- The same for a task that the call names.
local function named_task(pool, member, task_key, now)
  local task = known_task(pool, task_key, member, now)
  if task and (task.standing or pool.ended > 0) then
    lapse(pool, member, task, now)
  end
  return member, task, false
end

-- Encodes the reply for a task with a lease; `payload` is that of a queued task.
local function admitted(status, capacity, in_use, member, task, payload)
  if not task.standing then
    return pack(NUMBERS6, status, capacity, in_use, task.token, task.grant, task.expire)
  end
  local name = match(member, '\31(.*)$')
  return { status, capacity, in_use, task.token, task.grant, task.expire, task.attempt, name, payload }
end

-- Returns the reply if the call needs no free slot, else nil. `own` is 1 if the task has a slot.
local function settled(pool, member, task, named, own, seed, now)
  local capacity, in_use = pool.capacity, pool.in_use
  if own == 1 and now < task.expire then
    local payload = task.standing and payload_of(pool, member, task)
    return admitted(1, capacity, in_use, member, task, payload)
  elseif task and (task.state == 'D' or (task.standing or 'Q') ~= 'Q') then
    return pack(NUMBERS3, 5, capacity, in_use)
  elseif not task and named == '' then
    return pack(NUMBERS3, 3, capacity, in_use)
  elseif pool.paused == 1 or capacity == 0 then
    return pack(NUMBERS4, 4, capacity, in_use, spread(PAUSED_RETRY, seed, now))
  elseif pool.is_held then
    return pack(NUMBERS4, 4, capacity, in_use, spread(pool.failover.held - now, seed, now))
  elseif own == 1 and is_over(pool, task, now) then
    -- The last attempt still holds this slot; no other task gets it before slot_end.
    return pack(NUMBERS6, 2, capacity, in_use, spread(task.slot_end - now, seed, now), 0, 0)
  elseif pool.ended > 0 and capacity - in_use + own > 0 and in_use - own + pool.ended >= capacity then
    return pack(NUMBERS6, 2, capacity, in_use, 1, AGAIN, 0) -- expired leases are logged first
  end
end

-- Returns the µs until a lease's end makes room, false if no end does. That is the lease after
-- whose end capacity - 1 leases remain.
local function until_room(pool, now)
  if pool.room == nil then
    write_pool(pool, now)
    local last = call('ZREVRANGE', pool.leases, pool.capacity - 1, pool.capacity - 1, 'WITHSCORES')[2]
    pool.room = last and tonumber(last) - now or false
  end
  return pool.room
end

local function has_waiters(pool)
  pool.waiters = pool.waiters or call('EXISTS', pool.queue)
  return pool.waiters == 1
end
