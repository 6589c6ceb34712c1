-- Ends leases, attempts and queued tasks, with their events. A pool is a table of its keys
-- (leases, events, backlog, queued, due), history (events kept at least), max_attempts and
-- retention (µs).

-- Moves a task out of the queue. Its record stays for the retention, counted from the slot end
-- of its lease if it has one. Writes no event.
local function leave_queue(pool, member, task, standing, now)
  call('ZREM', pool.backlog, line_of(member, task))
  task.standing, task.payload = standing, drop_payload(pool, member, task)
  task.forget = (task.state == 'L' and math.max(now, task.slot_end) or now) + pool.retention
  write_queued(pool.queued, member, task)
  call('ZADD', pool.due, format('%.0f', task.forget), member)
end

-- Whether a queued task gets no further attempt: none is left, or its deadline has passed.
local function is_over(pool, task, now)
  return task.standing == 'Q' and (task.attempt >= pool.max_attempts or task.ends > 0 and task.ends <= now)
end

-- Returns standing and event of a queued task whose attempt ended without success; nil if it
-- stays in the queue.
local function fate(pool, member, task, now)
  if not is_over(pool, task, now) then
    return nil
  elseif task.attempt >= pool.max_attempts then
    return 'X', event(DEAD, task.token, task.attempt, member, now)
  end
  return 'T', event(EXPIRED, 0, task.attempt, member, now)
end

-- Records the end of an attempt; with a `standing` the task leaves the queue.
local function end_attempt(pool, member, task, standing, now)
  if standing then
    leave_queue(pool, member, task, standing, now)
  else
    write_queued(pool.queued, member, task)
  end
end

-- Removes a queued task that gets no further attempt, unless it holds a slot. Returns whether.
local function leave_if_over(pool, member, task, now)
  if not is_over(pool, task, now) or holds_slot(pool, member, task, now) then
    return false
  end
  local standing, left = fate(pool, member, task, now)
  log_events(pool.events, pool.history, now, left)
  leave_queue(pool, member, task, standing, now)
  return true
end

-- Ends a lease without a result; its task leaves the queue if it gets no further attempt.
local function expire(pool, member, task, now)
  local events, standing = { event(EXPIRED, task.token, task.attempt, member, now) }, nil
  if task.standing then
    standing, events[2] = fate(pool, member, task, now)
  end
  log_events(pool.events, pool.history, now, unpack(events))
  call('ZREM', pool.leases, lease_member(member, task))
  if standing then
    leave_queue(pool, member, task, standing, now)
  end
end

-- Whether the slot of a lease has ended, but the lease is still listed.
local function is_lapsed(pool, member, task, now)
  return task.state == 'L' and task.slot_end <= now and is_listed(pool, lease_member(member, task))
end

-- Removes expired leases in the order of their slot ends, while the allowance lasts. `ended` is
-- their number; returns how many remain.
local function reclaim(pool, ended, now)
  local most = math.min(ended, math.ceil(allowance / LEASE_COST))
  if most <= 0 then
    return math.max(ended, 0)
  end
  call('ZCARD', pool.backlog)
  call('ZCARD', pool.due)
  local leases = call('ZRANGE', pool.leases, 0, most - 1)
  local events, leaving, taken = {}, {}, 0
  while taken < #leases and allowance > 0 do
    taken = taken + 1
    local member, token, _, _, attempt = parse_lease(leases[taken])
    if member then
      events[#events + 1] = event(EXPIRED, token, attempt, member, now)
    end
    local readable, task, cost = false, nil, LEASE_COST
    if member and attempt > 0 then
      -- The lease ends even if its task record cannot be read.
      readable, task = pcall(read_queued, pool, member, now)
    end
    if readable and task and task.token == token then
      local standing, left = fate(pool, member, task, now)
      if standing then
        events[#events + 1] = left
        leaving[#leaving + 1] = { member, task, standing }
        cost = TASK_COST
      end
    end
    allowance = allowance - cost
  end
  if #events > 0 then
    log_events(pool.events, pool.history, now, unpack(events))
  end
  call('ZREMRANGEBYRANK', pool.leases, 0, taken - 1)
  for _, left in ipairs(leaving) do
    leave_queue(pool, left[1], left[2], left[3], now)
  end
  return ended - taken
end
