-- What the items of a run change of their pool, kept until `write_pool` puts it down: events
-- first, since where they cannot be appended nothing has changed.
--
-- news     events
-- changed  by lease the end of its slot, as text, where it was listed, false where it was
--          taken out
-- fresh    records of tasks: key, record, TTL

-- Puts a task on record.
local function put_record(pool, task_key, record, forget, now)
  local fresh, ttl = pool.fresh, digits(math.ceil((forget - now) / 1000))
  local at = #fresh
  fresh[at + 1], fresh[at + 2], fresh[at + 3] = task_key, record, ttl
  pool.records[task_key] = record
end

-- Puts a lease into the count, or with `slot_end` false out of it.
local function list_lease(pool, lease, slot_end)
  pool.changed[lease] = slot_end and digits(slot_end)
  pool.in_use = pool.in_use + (slot_end and 1 or -1)
  pool.has_changed, pool.room = true, nil
end

-- Ends the lease of a task that goes on.
local function end_lease(pool, member, task, now)
  pool.news[#pool.news + 1] = event(EXPIRED, task.token, task.attempt, member, now)
  list_lease(pool, lease_member(member, task), false)
end

local function write_leases(pool)
  local listed, gone = {}, {}
  for lease, slot_end in pairs(pool.changed) do
    if slot_end then
      listed[#listed + 1], listed[#listed + 2] = slot_end, lease
    else
      gone[#gone + 1] = lease
    end
  end
  if #gone > 0 then
    call('ZREM', pool.leases, unpack(gone))
  end
  if #listed > 0 then
    call('ZADD', pool.leases, unpack(listed))
  end
  pool.changed, pool.has_changed = {}, false
end

-- Keeps the pool's keys until the last instant at which something of it can matter.
local function keep(pool, forget)
  if pool.horizon == 0 then
    -- No token record: the leases that are there must not go with this one.
    local last = call('ZREVRANGE', pool.leases, 0, 0, 'WITHSCORES')[2]
    pool.horizon = last and tonumber(last) + pool.retention or 0
  end
  pool.horizon, pool.is_kept = max(pool.horizon, forget), true
end

-- How long it is remembered who led beyond the last lease, ms: without that a pool is new.
local LEADER_TTL = 30 * 86400 * 1000

local function write_token(pool, now)
  local ttl_ms = math.ceil((pool.horizon - now) / 1000)
  -- No shorter than its events: that a lease ends is one, whoever takes it out.
  call('PEXPIRE', pool.leases, digits(ttl_ms + HISTORY_TTL))
  local record = token_record(pool.last_token, pool.horizon, pool.failover)
  local more = pool.failover.leader and LEADER_TTL or 0
  call('SET', pool.token_key, record, 'PX', digits(ttl_ms + more))
end

local function put_down(pool, now)
  if #pool.news > 0 then
    log_events(pool.events, pool.history, now, unpack(pool.news))
  end
  if pool.has_changed then
    write_leases(pool)
  end
  if pool.is_kept then
    write_token(pool, now)
  end
  local fresh = pool.fresh
  for i = 1, #fresh, 3 do
    call('SET', fresh[i], fresh[i + 1], 'PX', fresh[i + 2])
  end
  pool.news, pool.fresh, pool.is_kept = {}, {}, false
end

-- Writes what has changed. What failed once is not tried again: a part of it may be there.
local function write_pool(pool, now)
  local fine, raised = not pool.raised, pool.raised
  if fine then
    fine, raised = pcall(put_down, pool, now)
  end
  if not fine then
    pool.raised = raised
    error(raised, 0)
  end
end
