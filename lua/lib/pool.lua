-- A pool as the items of a run share it: it is read once and written once.
--
-- @include leases queued settings strings task token
--
-- keys[1] settings, keys[2] token, keys[3] leases, keys[4] events, keys[5] queued,
-- keys[6] backlog, keys[7] due, keys[8] queue, keys[9] places
-- argv[1] capacity, argv[2] lease_ms, argv[3] grace_ms, argv[4] paused, argv[5]
-- max_attempts (defaults), argv[6] retention_ms, argv[7] history
--
-- A function that uses a key of the pool directly first calls `changes_write` (lib/changes.lua).

-- Stores the task records of KEYS from `first` to `last`, by key. Returns the number of values that
-- exist, settings and token included.
local function pool_read_records(pool, texts, first, last)
  local there = 0
  for i = first, last do
    local record = texts[i - first + 3]
    pool.records[KEYS[i]] = record
    there = there + (record and 1 or 0)
  end
  return there + (texts[1] and 1 or 0) + (texts[2] and 1 or 0)
end

-- Reads the pool, and the task records of all items.
local function pool_open(keys, argv, now, first, last)
  local pool = {
    settings = keys[1], token_key = keys[2], leases = keys[3], events = keys[4], queued = keys[5],
    backlog = keys[6], due = keys[7], queue = keys[8], places = keys[9],
    retention = argv[6] * 1000, history = tonumber(argv[7]),
    records = {}, fresh = {}, news = {}, changed = {},
  }
  local texts = call('MGET', pool.settings, pool.token_key, unpack(KEYS, first, last))
  local there = pool_read_records(pool, texts, first, last)
  -- MGET reports a value of another type as absent; EXISTS does not.
  if there < #texts and call('EXISTS', pool.settings, pool.token_key, unpack(KEYS, first, last)) > there then
    strings_read(pool.settings, pool.token_key)
    pool.records = {} -- a task record has another type: each item reads its own
  end
  pool.capacity, pool.lease_ms, pool.grace_ms, pool.paused, pool.max_attempts = settings_read(
    texts[1], tonumber(argv[1]), tonumber(argv[2]), tonumber(argv[3]), tonumber(argv[4]), tonumber(argv[5])
  )
  pool.is_new, pool.failover = not texts[2], token_decode(texts[2])
  pool.last_token, pool.horizon = pool.failover.token, pool.failover.horizon
  pool.in_use = leases_count(pool.leases, now)
  pool.was_in_use = pool.in_use
  return pool
end

-- Returns the task's record from its own key or from the queued tasks; nil if there is none.
local function pool_task(pool, task_key, member, now)
  local record = pool.records[task_key]
  if record == nil then
    record = strings_read(task_key)[1]
  end
  local task = task_decode(record, now)
  if task then
    return task
  elseif pool.has_queued == nil then
    pool.has_queued = call('HLEN', pool.queued) > 0
  end
  return pool.has_queued and queued_read(pool, member, now) or nil
end
