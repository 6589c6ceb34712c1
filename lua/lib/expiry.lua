-- Ends leases, attempts and queued tasks, with their events. A pool is a table of its keys, history
-- (events kept at least), max_attempts and retention (µs).
--
-- @include allowance events leases pool_event queued task

-- Moves a task out of the queue. Its record stays for the retention, counted from the slot end
-- of its lease if it has one. A dead task keeps its payload, for RequeueTask. Writes no event.
local function expiry_leave_queue(pool, member, task, standing, now)
  call('ZREM', pool.backlog, queued_line(member, task))
  task.standing = standing
  if standing ~= QUEUED_DEAD then
    task.payload = queued_drop_payload(pool, member, task)
  end
  task.forget = (task.state == TASK_LEASED and math.max(now, task.slot_end) or now) + pool.retention
  queued_write(pool.queued, member, task)
  call('ZADD', pool.due, format('%.0f', task.forget), member)
end

-- Returns whether a queued task gets no further attempt: none is left, or its deadline has passed.
local function expiry_is_over(pool, task, now)
  return task.standing == QUEUED_WAITING and (task.attempt >= pool.max_attempts or task.ends > 0 and task.ends <= now)
end

-- Returns standing and event of a task whose attempt ended without success; nil if it stays queued.
local function expiry_standing(pool, member, task, now)
  if not expiry_is_over(pool, task, now) then
    return nil
  elseif task.attempt >= pool.max_attempts then
    return QUEUED_DEAD, pool_event(POOL_EVENT_DEAD, task.token, task.attempt, member, now)
  end
  return QUEUED_EXPIRED, pool_event(POOL_EVENT_EXPIRED, 0, task.attempt, member, now)
end

-- Records the end of an attempt; with a `standing` the task leaves the queue.
local function expiry_end_attempt(pool, member, task, standing, now)
  if standing then
    expiry_leave_queue(pool, member, task, standing, now)
  else
    queued_write(pool.queued, member, task)
  end
end

-- Removes a queued task that gets no further attempt, unless it holds a slot. Returns whether it was removed.
local function expiry_leave_if_over(pool, member, task, now)
  if not expiry_is_over(pool, task, now) or leases_holds_slot(pool, member, task, now) then
    return false
  end
  local standing, left = expiry_standing(pool, member, task, now)
  events_append(pool.events, pool.history, now, left)
  expiry_leave_queue(pool, member, task, standing, now)
  return true
end

-- Ends a lease without a result; its task leaves the queue if it gets no further attempt.
local function expiry_end_lease(pool, member, task, now)
  local events, standing = { pool_event(POOL_EVENT_EXPIRED, task.token, task.attempt, member, now) }, nil
  if task.standing then
    standing, events[2] = expiry_standing(pool, member, task, now)
  end
  pool_event_append(pool, now, events, 1)
  call('ZREM', pool.leases, leases_encode(member, task))
  if standing then
    expiry_leave_queue(pool, member, task, standing, now)
  end
end

-- Returns whether the slot of a lease has ended while the lease is still listed.
local function expiry_is_lapsed(pool, member, task, now)
  return task.state == TASK_LEASED and task.slot_end <= now and leases_is_listed(pool, leases_encode(member, task))
end

-- Removes expired leases by slot end, as long as the allowance lasts. Returns how many of `ended` remain.
local function expiry_reclaim(pool, ended, now)
  local most = math.min(ended, math.ceil(allowance / ALLOWANCE_LEASE))
  if most <= 0 then
    return math.max(ended, 0)
  end
  call('ZCARD', pool.backlog)
  call('ZCARD', pool.due)
  local leases, events, leaving, taken = call('ZRANGE', pool.leases, 0, most - 1), {}, {}, 0
  while taken < #leases and allowance > 0 do
    taken = taken + 1
    local member, token, _, _, attempt = leases_decode(leases[taken])
    if member then
      events[#events + 1] = pool_event(POOL_EVENT_EXPIRED, token, attempt, member, now)
    end
    local readable, task, cost = false, nil, ALLOWANCE_LEASE
    if member and attempt > 0 then
      -- The lease ends even if its task record cannot be read.
      readable, task = pcall(queued_read, pool, member, now)
    end
    if readable and task and task.token == token then
      local standing, left = expiry_standing(pool, member, task, now)
      if standing then
        events[#events + 1] = left
        leaving[#leaving + 1] = { member, task, standing }
        cost = ALLOWANCE_TASK
      end
    end
    allowance = allowance - cost
  end
  if #events > 0 then
    pool_event_append(pool, now, events, #events - #leaving)
  end
  call('ZREMRANGEBYRANK', pool.leases, 0, taken - 1)
  for _, left in ipairs(leaving) do
    expiry_leave_queue(pool, left[1], left[2], left[3], now)
  end
  return ended - taken
end
