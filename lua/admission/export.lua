-- Reads a page of the stored entries of a pool, for an export.
--
-- @include leases queued settings strings task token
--
-- keys[1] settings string: the pool's run-time settings.
-- keys[2] token string: its last fencing token.
-- keys[3] queued hash: records of queued tasks.
-- keys[4] leases zset: leases by slot end.
-- keys[5] task string: the record of a task.
-- argv[1] what p for settings and token, q for queued tasks, t for the task, x for leases.
-- argv[2] member device and task of the task, or empty.
-- argv[3] after position of the previous page, or empty.
-- argv[4] limit about this many entries a page, 1..250.
--
-- Returns {0, position of the page or empty if it is the last, entries …}. An entry is
--         '' letter, last token, capacity, lease_ms, grace_ms, paused, max_attempts (text, empty
--         where not overridden).
--         't' letter, member, state, disclosed 0 or 1, listed 0 or 1, token, grant, expire, slot_end,
--         forget or 0, outcome 0 to 2, text, standing or empty, attempt, at, ends or 0, payload.
--         {1, µs until the end of a failover hold}: an export cannot contain the hold.
-- Writes nothing.
-- Cost O(log leases + limit): 10 µs an entry; 30 µs for a payload of 64 KiB.
local EXPORT_ON_HOLD = 1

-- Appends the record of a task. Its lease counts if `leases` has a member for it.
local function push(reply, pool, member, task, forget, outcome, text, payload)
  local listed = task.state == TASK_LEASED and leases_is_listed(pool, leases_encode(member, task)) and 1 or 0
  local values = {
    't', member, task.state, task.is_disclosed and 1 or 0, listed, task.token, task.grant, task.expire,
    task.slot_end, forget, outcome, text, task.standing or '', task.attempt, task.queued or 0,
    task.ends or 0, payload,
  }
  for i = 1, #values do
    reply[#reply + 1] = values[i]
  end
end

local function push_pool(reply, pool, now)
  local settings, token = unpack(strings_read(pool.settings, pool.token))
  local record = token_decode(token)
  if record.held > now then
    return { EXPORT_ON_HOLD, record.held - now }
  elseif settings or token then
    settings_read(settings)
    local values = settings and { settings_decode(settings) } or { '', '', '', '', '' }
    return { OK, '', '', record.token, unpack(values) }
  end
  return reply
end

-- Appends a page of queued tasks, in no particular order. HSCAN returns a small hash as a whole.
local function push_queued(reply, pool, after, limit, now)
  local page = call('HSCAN', pool.queued, after == '' and '0' or after, 'COUNT', limit)
  for i = 1, #page[2], 2 do
    local member = page[2][i]
    local task = sub(member, 1, 1) ~= '\31' and queued_decode(page[2][i + 1], now)
    if task then
      push(reply, pool, member, task, task.forget, 0, '', queued_payload(pool, member, task))
    end
  end
  reply[2] = page[1] ~= '0' and page[1] or ''
  return reply
end

local function push_task(reply, pool, task_key, member, now)
  local record = strings_read(task_key)[1]
  local task = task_decode(record, now)
  if task then
    local forget, rest = scan('<I8', record, 34), sub(record, TASK_HEAD_BYTES + 1)
    local outcome = task.state == TASK_DONE and tonumber(sub(rest, 1, 1)) or 0
    push(reply, pool, member, task, forget, outcome, task.state == TASK_DONE and sub(rest, 2) or rest, '')
  end
  return reply
end

-- Appends the leases that hold a slot, as tasks that are forgotten when the slot ends. An import
-- uses them where the record of the task is missing.
local function push_leases(reply, pool, after, limit, now)
  local start = call('ZCOUNT', pool.leases, '-inf', format('%.0f', now))
  if after ~= '' then
    local rank = call('ZRANK', pool.leases, sub(after, 17))
    start = math.max(start, rank and rank + 1 or call('ZCOUNT', pool.leases, '-inf', '(' .. sub(after, 1, 16)))
  end
  local page = call('ZRANGE', pool.leases, start, start + limit, 'WITHSCORES')
  for i = 1, math.min(#page, 2 * limit), 2 do
    local slot_end, member, token, grant, expire = tonumber(page[i + 1]), leases_decode(page[i])
    if not member then
      error('CORRUPT lease in the pool; ConfigurePool with reset repairs it', 0)
    end
    local task = { state = TASK_LEASED, attempt = 0, token = token, grant = grant, expire = expire }
    task.slot_end, task.lease = slot_end, sub(page[i], #member + 1)
    push(reply, pool, member, task, slot_end, 0, '', '')
  end
  reply[2] = page[2 * limit + 1] and format('%016.0f', page[2 * limit]) .. page[2 * limit - 1] or ''
  return reply
end

local function decide(keys, argv, now)
  local pool = { settings = keys[1], token = keys[2], queued = keys[3], leases = keys[4] }
  local task_key, what, member, after, limit = keys[5], argv[1], argv[2], argv[3], tonumber(argv[4])
  local reply = { OK, '' }
  if what == 'p' then
    return push_pool(reply, pool, now)
  elseif what == 'q' then
    return push_queued(reply, pool, after, limit, now)
  elseif what == 't' then
    return push_task(reply, pool, task_key, member, now)
  end
  return push_leases(reply, pool, after, limit, now)
end
