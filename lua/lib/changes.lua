-- The changes that the items of a run make to their pool, collected until `changes_write` writes
-- them. Events are written first: if they cannot be appended, nothing has changed.
--
-- @include digits events leases pool_event token
--
-- news     events
-- changed  by lease: the end of its slot as text if it was listed, false if it was removed
-- fresh    task records: key, record, TTL in ms

-- Sets a task record.
local function changes_put_record(pool, task_key, record, forget, now)
  local fresh, ttl = pool.fresh, digits(math.ceil((forget - now) / 1000))
  local at = #fresh
  fresh[at + 1], fresh[at + 2], fresh[at + 3] = task_key, record, ttl
  pool.records[task_key] = record
end

-- Adds a lease to the count; removes it if `slot_end` is false.
local function changes_list_lease(pool, lease, slot_end)
  pool.changed[lease] = slot_end and digits(slot_end)
  pool.in_use = pool.in_use + (slot_end and 1 or -1)
  pool.has_changed, pool.until_free, pool.holders = true, nil, nil
end

-- Ends a lease that the task's next lease replaces.
local function changes_replace_lease(pool, member, task, now)
  pool.news[#pool.news + 1] = pool_event(POOL_EVENT_EXPIRED, task.token, task.attempt, member, now)
  pool.replaced = (pool.replaced or 0) + 1
  changes_list_lease(pool, leases_encode(member, task), false)
end

local function changes_write_leases(pool)
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

-- Extends the TTL of the pool's keys to `forget`, the last time at which they matter.
local function changes_keep(pool, forget)
  if pool.horizon == 0 then
    -- Without a token record: do not shorten the TTL below that of the listed leases.
    local last = call('ZREVRANGE', pool.leases, 0, 0, 'WITHSCORES')[2]
    pool.horizon = last and tonumber(last) + pool.retention or 0
  end
  pool.horizon, pool.is_kept = max(pool.horizon, forget), true
end

-- How long the primary id is kept after the last lease, ms. A pool without one counts as new.
local CHANGES_PRIMARY_ID_TTL = 30 * 86400 * 1000

local function changes_write_token(pool, now)
  local ttl_ms = math.ceil((pool.horizon - now) / 1000)
  -- Keep leases as long as events: the script that removes a lease logs its end.
  call('PEXPIRE', pool.leases, digits(ttl_ms + EVENTS_TTL))
  local record = token_encode(pool.last_token, pool.horizon, pool.failover)
  local more = pool.failover.primary_id and CHANGES_PRIMARY_ID_TTL or 0
  call('SET', pool.token_key, record, 'PX', digits(ttl_ms + more))
end

local function changes_apply(pool, now)
  if #pool.news > 0 then
    pool_event_append(pool, now, pool.news, pool.replaced or 0)
    pool.replaced = nil
  end
  if pool.has_changed then
    changes_write_leases(pool)
  end
  if pool.is_kept then
    changes_write_token(pool, now)
  end
  local fresh = pool.fresh
  for i = 1, #fresh, 3 do
    call('SET', fresh[i], fresh[i + 1], 'PX', fresh[i + 2])
  end
  pool.news, pool.fresh, pool.is_kept = {}, {}, false
end

-- Writes the changes. After a failure every later call fails, because some of the changes may have
-- been written.
local function changes_write(pool, now)
  local fine, raised = not pool.raised, pool.raised
  if fine then
    fine, raised = pcall(changes_apply, pool, now)
  end
  if not fine then
    pool.raised = raised
    error(raised, 0)
  end
end
