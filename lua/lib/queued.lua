-- Queued tasks. Each has a hash field from EnqueueTask until its record is forgotten, or until
-- a result is stored in the task's own key.
--
-- @include task
--
-- queued    hash by device and task: "standing state token grant expire slot_end attempt
--           queued until forget payload". Standing Q (queued), X (dead), C (cancelled) or T
--           (past until, its deadline). State N (no lease yet), L (leased), l (leased and
--           disclosed), F (last attempt failed) or E (evicted). until and forget are 0 for
--           never. A payload above QUEUED_INLINE_MAX bytes has a separate field, \31 and then
--           device and task, and the standing is a small letter: only a dispatch reads it.
-- backlog   zset, all scores 0, of "device\31queued\31task" for standing Q. queued is the
--           enqueue time in 16 digits, and increases within a device.
-- due       zset of devices and tasks by when the sweeper must handle them: until of Q,
--           forget of the others.
local QUEUED_WAITING, QUEUED_DEAD, QUEUED_CANCELLED, QUEUED_EXPIRED = 'Q', 'X', 'C', 'T'
local QUEUED_FORM = '^([QXCTqxct])([NLlFE]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$'
local QUEUED_INLINE_MAX, QUEUED_BYTES_MAX = 512, 2048

-- Decodes a record; nil if it is forgotten. `payload` is nil if it has a separate field.
local function queued_decode(text, now)
  local standing, state, token, grant, expire, slot_end, attempt, queued, ends, forget, payload =
    match(text, QUEUED_FORM)
  if not standing or #text > QUEUED_BYTES_MAX then
    error('CORRUPT record of a queued task; EvictTask deletes it', 0)
  end
  local task = {
    standing = string.upper(standing),
    state = state == TASK_DISCLOSED and TASK_LEASED or state, is_disclosed = state == TASK_DISCLOSED,
    token = tonumber(token), grant = tonumber(grant),
    expire = tonumber(expire), slot_end = tonumber(slot_end), attempt = tonumber(attempt),
    queued = tonumber(queued), ends = tonumber(ends), forget = tonumber(forget),
    payload = standing == string.upper(standing) and payload or nil,
  }
  local latest = math.max(task.token, task.grant, task.expire, task.slot_end, task.queued, task.ends, task.forget)
  if latest > TIME_MAX or task.attempt > 1000000 then
    error('CORRUPT record of a queued task; EvictTask deletes it', 0)
  elseif task.forget == 0 or task.forget > now then
    return task
  end
end

-- Reads the record of a queued task. Fails if backlog or due, written with it, has another type.
local function queued_read(pool, member, now)
  local text = call('HGET', pool.queued, member)
  if text then
    call('ZCARD', pool.backlog)
    call('ZCARD', pool.due)
  end
  return text and queued_decode(text, now) or nil
end

-- Returns the task's record from its own key or from the queued tasks; nil if there is none.
local function queued_find_task(record, pool, member, now)
  return task_decode(record, now) or queued_read(pool, member, now)
end

-- Returns the task's payload. Fails if it is missing.
local function queued_payload(pool, member, task)
  local payload = task.payload or call('HGET', pool.queued, '\31' .. member)
  return payload and #payload <= 65536 and payload or error('CORRUPT payload of a queued task; EvictTask deletes it', 0)
end

-- Deletes a payload in a separate field. Returns the empty payload to store instead.
local function queued_drop_payload(pool, member, task)
  if not task.payload then
    call('HDEL', pool.queued, '\31' .. member)
  end
  return ''
end

local function queued_write(queued_key, member, task)
  local payload = task.payload
  local apart = not payload or #payload > QUEUED_INLINE_MAX
  local record = format(
    '%s%s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f ',
    apart and string.lower(task.standing) or task.standing,
    task.state == TASK_LEASED and task.is_disclosed and TASK_DISCLOSED or task.state,
    task.token, task.grant, task.expire, task.slot_end, task.attempt,
    task.queued, task.ends, task.forget
  )
  if not apart then
    call('HSET', queued_key, member, record .. payload)
  elseif payload then
    call('HSET', queued_key, member, record, '\31' .. member, payload)
  else
    call('HSET', queued_key, member, record)
  end
end

-- Returns the task's entry in the backlog.
local function queued_line(member, task)
  local device, name = match(member, '^([^\31]*)\31(.*)$')
  return format('%s\31%016.0f\31%s', device, task.queued, name)
end

-- Returns the enqueue time of the next task of a device, later than that of all its tasks.
local function queued_next(backlog_key, device, now)
  local from, to = '[' .. device .. '\31', '(' .. device .. ' '
  local newest = call('ZREVRANGEBYLEX', backlog_key, to, from, 'LIMIT', 0, 1)[1]
  local last = newest and tonumber(sub(newest, #device + 2, #device + 17)) or 0
  return math.max(now, last + 1)
end

-- Deletes the record, the payload, and the entries of a queued task.
local function queued_drop(pool, member, task)
  call('HDEL', pool.queued, member, '\31' .. member)
  call('ZREM', pool.backlog, queued_line(member, task))
  call('ZREM', pool.due, member)
end
