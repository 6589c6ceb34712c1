-- What AdmitTask does beside its rule: when to ask again, and which task it is about.
-- Replies of so many numbers.
local NUMBERS3, NUMBERS4, NUMBERS6 = '<I8I8I8', '<I8I8I8I8', '<I8I8I8I8I8I8'
local PAUSED_RETRY = 10 * 1000000
local SPREAD_MIN, SPREAD_MAX = 50 * 1000, 5 * 1000000
-- For a slot that is free, but kept for those that wait.
local KEPT_RETRY = 50 * 1000
-- Tasks whose time is over that this call of the script, with all its items, takes out of
-- queues.
local overs = 100

-- Milliseconds to wait, spread over an eighth of the wait: long waits that end
-- together come back further apart, and no slot idles long for it.
local function spread(wait, seed, now)
  local window = math.min(math.max(math.floor(wait / 8), SPREAD_MIN), SPREAD_MAX)
  return math.ceil((wait + (seed + now) % window) / 1000)
end

-- Takes what has lapsed of a task into account: its lease where not all ended ones have
-- been taken out, its time, and its attempts. True when it left the queue.
local function lapse(pool, member, task, now)
  write_pool(pool, now)
  if pool.ended > 0 and is_lapsed(pool, member, task, now) then
    expire(pool, member, task, now)
    pool.stale = true -- one less has ended
  else
    leave_if_over(pool, member, task, now)
  end
  return task.standing ~= 'Q'
end

-- Device and task of the device's oldest queued one, and what is known of it, nil when
-- there is none; true when more tasks are over than one call takes out of the queue.
local function oldest_task(pool, device, now)
  local from, to = '[' .. device .. '\31', '(' .. device .. ' '
  while overs > 0 do
    local line = call('ZRANGEBYLEX', pool.backlog, from, to, 'LIMIT', 0, 1)[1]
    if not line then
      return device .. '\31', nil, false
    end
    local member = device .. '\31' .. string.sub(line, #device + 19)
    local task = read_queued(pool, member, now)
    if not task or task.standing ~= 'Q' then
      call('ZREM', pool.backlog, line) -- its record was dropped
    elseif not lapse(pool, member, task, now) then
      return member, task, false
    end
    overs = overs - 1
  end
  return device .. '\31', nil, true
end

-- The same of the task that a call names.
local function named_task(pool, member, task_key, now)
  local task = known_task(pool, task_key, member, now)
  if task and (task.standing or pool.ended > 0) then
    lapse(pool, member, task, now)
  end
  return member, task, false
end

-- The answer that a task has a lease; `payload` is a queued one's.
local function admitted(status, capacity, in_use, member, task, payload)
  if not task.standing then
    return pack(NUMBERS6, status, capacity, in_use, task.token, task.grant, task.expire)
  end
  local name = match(member, '\31(.*)$')
  return { status, capacity, in_use, task.token, task.grant, task.expire, task.attempt, name, payload }
end

-- The answer that takes no free slot, if there is one; `own` is 1 for a task with a slot.
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
    -- It leaves the queue with its slot, which is not for another task before.
    return pack(NUMBERS6, 2, capacity, in_use, spread(task.slot_end - now, seed, now), 0, 0)
  elseif pool.ended > 0 and capacity - in_use + own > 0 and in_use - own + pool.ended >= capacity then
    return pack(NUMBERS6, 2, capacity, in_use, 1, AGAIN, 0) -- the events of ended leases come first
  end
end

-- How long until there is room, false where no lease's end makes any: when that lease
-- ends, one less than the capacity are left.
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
