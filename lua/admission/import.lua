-- Stores an entry of a pool from an export.
--
-- @include digits leases queued strings task token
--
-- keys[1] settings string: the pool's run-time settings.
-- keys[2] token string: its last fencing token.
-- keys[3] queued hash: records of queued tasks.
-- keys[4] backlog zset: queued tasks by device and age.
-- keys[5] due zset: queued tasks by when the sweeper must handle them.
-- keys[6] leases zset: leases by slot end.
-- keys[7] task string: the record of the task.
-- argv[1] what p for settings and token, t for a task.
-- argv[2] last_token below 2^52.
-- argv[3] capacity 0..1000000, empty where not overridden, as the next four.
-- argv[4] lease_ms 100..86400000.
-- argv[5] grace_ms 0..2592000000.
-- argv[6] paused 0 or 1.
-- argv[7] max_attempts 1..1000.
-- argv[8] member device and task, joined by \31.
-- argv[9] state N, L, F, E or D.
-- argv[10] disclosed 0 or 1.
-- argv[11] listed 0 or 1: the lease is in `leases`.
-- argv[12] times packed: token, grant, expire, slot_end, forget (0 for never); u64.
-- argv[13] rest result with its outcome before it, or reason.
-- argv[14] standing of a queued task, Q, X, C or T; else empty.
-- argv[15] queue packed: attempt, at, ends (0 for never); u64.
-- argv[16] payload 0..65536 bytes.
--
-- Returns {0}.
-- Writes settings, queued, backlog and due, permanent; task, TTL: until it is forgotten; token, TTL:
--        its horizon, at least an hour; leases, TTL: the same and 24 h.
-- Cost O(log leases): 50 µs.
local TOKEN_TTL, LEASES_TTL = 3600 * 1000000, 24 * 3600 * 1000

-- Raises the last token, and keeps it and the leases until `horizon`. Without a token record,
-- which comes with settings and token, only the leases.
local function keep(pool, record, stored, horizon, now)
  local last = call('ZREVRANGE', pool.leases, 0, 0, 'WITHSCORES')[2]
  record.horizon = max(record.horizon, horizon, tonumber(last or '0'))
  local ttl_ms = math.ceil((record.horizon - now) / 1000)
  if stored then
    call('SET', pool.token, token_encode(record.token, record.horizon, {}), 'PX', digits(ttl_ms))
  end
  call('PEXPIRE', pool.leases, digits(ttl_ms + LEASES_TTL))
end

local function write_pool(pool, last_token, values, now)
  local settings = table.concat(values, ',')
  local record = token_decode(strings_read(pool.token)[1])
  if settings ~= ',,,,' then
    call('SET', pool.settings, settings)
  end
  record.token = max(record.token, last_token)
  keep(pool, record, record.token > 0, max(record.token + 1, now + TOKEN_TTL), now)
end

local function write_entries(pool, member, task)
  queued_write(pool.queued, member, task)
  if task.standing == QUEUED_WAITING then
    call('ZADD', pool.backlog, 0, queued_line(member, task))
  end
  local due = task.standing == QUEUED_WAITING and task.ends or task.forget
  if due > 0 then
    call('ZADD', pool.due, digits(due), member)
  end
end

local function decide(keys, argv, now)
  local pool = {
    settings = keys[1], token = keys[2], queued = keys[3], backlog = keys[4], due = keys[5], leases = keys[6],
  }
  local task_key, what, last_token, member, rest = keys[7], argv[1], tonumber(argv[2]), argv[8], argv[13]
  if what == 'p' then
    write_pool(pool, last_token, { argv[3], argv[4], argv[5], argv[6], argv[7] }, now)
    return { OK }
  end
  local task = { state = argv[9], is_disclosed = argv[10] == '1', standing = argv[14], payload = argv[16] }
  task.token, task.grant, task.expire, task.slot_end, task.forget = scan('<I8I8I8I8I8', argv[12])
  task.attempt, task.queued, task.ends = scan('<I8I8I8', argv[15])
  if task.forget > 0 and task.forget <= now then
    return { OK }
  end
  local token = strings_read(pool.token)[1]
  local record = token_decode(token)
  if task.standing ~= '' then
    write_entries(pool, member, task)
  else
    local state = task.state == TASK_LEASED and task.is_disclosed and TASK_DISCLOSED or task.state
    task_write(task_key, state, task, task.forget, now, rest)
  end
  local listed, horizon = argv[11] == '1', max(task.forget, task.slot_end)
  if listed then
    call('ZADD', pool.leases, digits(task.slot_end), leases_encode(member, task))
  end
  if listed or horizon > record.horizon then
    keep(pool, record, token, horizon, now)
  end
  return { OK }
end
