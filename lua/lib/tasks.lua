-- Tasks that were queued, each in a field of a hash for as long as something is known
-- of it and no result is on record (that is in the task's own key).
--
-- queued    hash: device and task: "standing state token grant expire slot_end attempt
--           queued until forget payload", standing Q (queued), X (dead), C (cancelled)
--           or T (its time, until, was over), state N (no lease yet), L (leased), l (the
--           same, and told of since), F (its last attempt failed) or E (evicted); until and
--           forget are 0 for never
-- backlog   zset, all of score 0, of "device\31queued\31task" for standing Q; queued,
--           the time in 16 digits, rises within a device
-- due       zset of devices and tasks by when the sweeper has to see to them: until of
--           Q, forget of the others
local RECORD = '^([QXCT])([NLlFE]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$'

-- nil when nothing is known of the task, or no longer.
local function parse_queued(text, now)
  local standing, state, token, grant, expire, slot_end, attempt, queued, ends, forget, payload =
    match(text, RECORD)
  if not standing then
    error('CORRUPT record of a queued task; EvictTask drops it', 0)
  end
  local task = {
    standing = standing, state = state == 'l' and 'L' or state, is_told = state == 'l',
    token = tonumber(token), grant = tonumber(grant),
    expire = tonumber(expire), slot_end = tonumber(slot_end), attempt = tonumber(attempt),
    queued = tonumber(queued), ends = tonumber(ends), forget = tonumber(forget), payload = payload,
  }
  local latest = math.max(task.token, task.grant, task.expire, task.slot_end, task.queued, task.ends, task.forget)
  if latest > TIME_MAX or task.attempt > 1000000 then
    error('CORRUPT record of a queued task; EvictTask drops it', 0)
  elseif task.forget == 0 or task.forget > now then
    return task
  end
end

-- Of a pool, which is its keys. Fails where what is written with the record cannot be.
local function read_queued(pool, member, now)
  local text = call('HGET', pool.queued, member)
  if text then
    call('ZCARD', pool.backlog)
    call('ZCARD', pool.due)
  end
  return text and parse_queued(text, now) or nil
end

-- What is known of a task: from its own key's record, or as one that was queued.
local function find_task(record, pool, member, now)
  return read_task(record, now) or read_queued(pool, member, now)
end

local function write_queued(queued_key, member, task)
  local record = format(
    '%s%s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f ',
    task.standing, task.state == 'L' and task.is_told and 'l' or task.state,
    task.token, task.grant, task.expire, task.slot_end, task.attempt,
    task.queued, task.ends, task.forget
  )
  call('HSET', queued_key, member, record .. task.payload)
end

-- Its place in the backlog.
local function line_of(member, task)
  local device, name = match(member, '^([^\31]*)\31(.*)$')
  return format('%s\31%016.0f\31%s', device, task.queued, name)
end

-- Drops all that is known of a task as one that was queued.
local function drop_queued(pool, member, task)
  call('HDEL', pool.queued, member)
  call('ZREM', pool.backlog, line_of(member, task))
  call('ZREM', pool.due, member)
end
