-- Whether a pool has to wait since another primary led before: what that one had not handed
-- on is lost, and leases that it granted may run. They are over when one lease length has
-- passed, with its grace.
--
-- leader  "process:history", run_id and master_replid of Redis, who wrote the pool last.
--         Another process leads after a promotion or a restart, another history after a
--         promotion; a history changes without one when a first replica comes, or none was
--         there for long, which forgets the one before (master_replid2).
-- began   when the leader was first seen to lead: not before it did
-- held    until when nobody new is admitted since then
-- floor   the last token that is known of the one before: what it lost is above it
local process, history, is_promoted
local function this_leader()
  if not process then
    local replication = call('INFO', 'replication')
    history = match(replication, 'master_replid:(%x+)')
    is_promoted = match(replication, 'master_replid2:0*[1-9a-f]') ~= nil
    process = match(call('INFO', 'server'), 'run_id:(%x+)')
    if not history or not process then
      error('UNSUPPORTED Redis does not say who it is (INFO), without which no failover is seen', 0)
    end
  end
  return process .. ':' .. history
end

-- Whether a leader of that name is the one that leads now.
local function still_leads(name)
  local of_process, of_history = match(name, '^(%x+):(%x+)$')
  return of_process == process and (of_history == history or not is_promoted)
end

-- Sees to it that nobody new is admitted after a failover. `seen` is "leader ms changed":
-- whom the call's server saw lead, for how long, and whether somebody may have led before,
-- 0 or 1; empty for a pool that is never held.
local function heed_failover(pool, seen, now)
  if seen == '' then
    return
  end
  local failover, length = pool.failover, (pool.lease_ms + pool.grace_ms) * 1000
  local this = this_leader()
  local name, ms, changed = match(seen, '^(%S+) (%d+) ([01])$')
  local is_seen, is_other = still_leads(name), nil
  if failover.leader then
    is_other = not still_leads(failover.leader)
  else
    -- It is new, or was lost with all that is known of it.
    is_other = changed == '1' or name ~= '-' and not is_seen
  end
  failover.leader = this
  if is_other then
    failover.began = is_seen and now - ms * 1000 or now
    failover.floor = pool.last_token
    failover.held = max(failover.held, failover.began + length)
    if failover.held > now then
      keep(pool, failover.held + pool.retention)
    end
  end
  pool.is_held = failover.held > now
end
