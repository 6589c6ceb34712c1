-- Failover hold. When another Redis process takes over, unreplicated leases of the earlier one are
-- lost, but their holders may still use them. The pool admits no new task until they have ended:
-- for one lease duration plus grace.
--
-- A pool without a record gets the same hold if the store has lost its data (lib/store.lua).
--
-- @include changes store
--
-- primary_id  "process:history", the run_id and master_replid of the Redis that last wrote the pool.
--             A restart changes the process; a promotion changes both. The history also changes
--             when a first replica connects, or after a long time without replicas; no earlier
--             history (master_replid2) is known then.
-- began       when that primary was first seen; never before it took over
-- held        end of the hold
-- floor       last known token of the earlier primary: the lost tokens are greater
--
-- A hold after a loss of the store has no primary_id in a pool without failover holds.
local failover_process, failover_history, failover_is_promoted
local function failover_primary_id()
  if not failover_process then
    local replication = call('INFO', 'replication')
    failover_history = match(replication, 'master_replid:(%x+)')
    failover_is_promoted = match(replication, 'master_replid2:0*[1-9a-f]') ~= nil
    failover_process = match(call('INFO', 'server'), 'run_id:(%x+)')
    if not failover_history or not failover_process then
      error('UNSUPPORTED INFO has no run_id or master_replid, so failovers cannot be detected; use Redis or Valkey', 0)
    end
  end
  return failover_process .. ':' .. failover_history
end

-- Returns whether `name` is the current primary. Its history may differ if there was no promotion.
local function failover_is_primary(name)
  local of_process, of_history = match(name, '^(%x+):(%x+)$')
  return of_process == failover_process and (of_history == failover_history or not failover_is_promoted)
end

-- Starts a hold for a pool without a record if the store has lost its data: the leases of the pool
-- may still be in use.
local function failover_hold_after_loss(pool, length, now)
  local state, time = store_read()
  local failover = pool.failover
  if (state == STORE_LOST or state == STORE_ACCEPTED) and time + length > now then
    failover.began, failover.held = time, time + length
    changes_keep(pool, failover.held + pool.retention)
  end
end

-- Starts a hold after a failover. `seen` is "primary_id ms changed": the primary id that the server
-- has seen, for how many ms it has seen it, and 1 if another primary may have preceded it, else 0.
-- It is empty for a pool without holds.
local function failover_hold(pool, seen, now)
  local failover, length = pool.failover, (pool.lease_ms + pool.grace_ms) * 1000
  if pool.is_new then
    failover_hold_after_loss(pool, length, now)
  end
  if seen == '' then
    pool.is_held = not failover.primary_id and failover.held > now
    return
  end
  local this = failover_primary_id()
  local name, ms, changed = match(seen, '^(%S+) (%d+) ([01])$')
  local is_seen, is_other = failover_is_primary(name), nil
  if failover.primary_id then
    is_other = not failover_is_primary(failover.primary_id)
  else
    -- The pool is new, or the failover lost all of it.
    is_other = changed == '1' or name ~= '-' and not is_seen
  end
  failover.primary_id = this
  if is_other then
    failover.began = is_seen and now - ms * 1000 or now
    failover.floor = pool.last_token
    failover.held = max(failover.held, failover.began + length)
    if failover.held > now then
      changes_keep(pool, failover.held + pool.retention)
    end
  end
  pool.is_held = failover.held > now
end
