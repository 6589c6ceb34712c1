-- What AdmitTask does beside its rule: when to ask again, and which task it is about.
local PAUSED_RETRY = 10 * 1000000
local SPREAD_MIN, SPREAD_MAX = 50 * 1000, 5 * 1000000
-- For a slot that is free, but kept for those that wait.
local KEPT_RETRY = 50 * 1000
-- Tasks of a device whose time is over that one call takes out of its queue.
local OVER_MAX = 100

-- Milliseconds to wait, spread over an eighth of the wait: long waits that end
-- together come back further apart, and no slot idles long for it.
local function spread(wait, seed, now)
  local window = math.min(math.max(math.floor(wait / 8), SPREAD_MIN), SPREAD_MAX)
  return math.ceil((wait + (seed + now) % window) / 1000)
end

-- Takes what has lapsed of a task into account: its lease where not all ended ones have
-- been taken out, its time, and its attempts. True when it left the queue.
local function settle(pool, member, task, some_ended, now)
  if some_ended and is_lapsed(pool, member, task, now) then
    expire(pool, member, task, now)
  else
    leave_if_over(pool, member, task, now)
  end
  return task.standing ~= 'Q'
end

-- Device and task of the device's oldest queued one, and what is known of it, nil when
-- there is none; true when more tasks are over than one call takes out of the queue.
local function oldest_task(pool, device, some_ended, now)
  local from, to = '[' .. device .. '\31', '(' .. device .. ' '
  for _ = 1, OVER_MAX do
    local line = call('ZRANGEBYLEX', pool.backlog, from, to, 'LIMIT', 0, 1)[1]
    if not line then
      return device .. '\31', nil, false
    end
    local member = device .. '\31' .. string.sub(line, #device + 19)
    local task = read_queued(pool, member, now)
    if not task or task.standing ~= 'Q' then
      call('ZREM', pool.backlog, line) -- its record was dropped
    elseif not settle(pool, member, task, some_ended, now) then
      return member, task, false
    end
  end
  return device .. '\31', nil, true
end

-- The same of the task that a call names.
local function named_task(pool, member, text, some_ended, now)
  local task = find_task(text, pool, member, now)
  if task then
    settle(pool, member, task, some_ended, now)
  end
  return member, task, false
end

-- The answer that a task has a lease.
local function admitted(status, capacity, in_use, member, task)
  local answer = { status, capacity, in_use, task.token, task.grant, task.expire }
  if task.standing then
    answer[7], answer[8], answer[9] = task.attempt, match(member, '\31(.*)$'), task.payload
  end
  return answer
end
