-- Whether a pool has to wait since another primary led before: what that one had not handed
-- on is lost, and leases that it granted may run. They are over when one lease length has
-- passed, with its grace.
--
-- leader  "process:history", run_id and master_replid of Redis. Another process leads after
--         a promotion or a restart, another history after a promotion; a history changes
--         without one when a first replica comes, or none was there for long, which
--         forgets the one before (master_replid2).

-- How long the leader is remembered beyond the last lease, ms: without it a pool is new.
local LEADER_TTL = 30 * 86400 * 1000

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
-- whom the call's server saw lead, for how long, and whether somebody led before, 0 or 1;
-- empty for a pool that is never held.
local function heed_failover(pool, seen, now)
  if seen == '' then
    pool.leader, pool.held = nil, 0
    return
  end
  local this, length = this_leader(), pool.lease_ms + pool.grace_ms
  local name, ms, changed = match(seen, '^(%S+) (%d+) ([01])$')
  local is_seen, is_other = still_leads(name), nil
  if pool.leader then
    is_other = not still_leads(pool.leader)
  else
    -- It is new, or was lost with all that is known of it.
    is_other = changed == '1' or name ~= '-' and not is_seen
  end
  if is_other and not (is_seen and tonumber(ms) >= length) then
    pool.held = now + length * 1000
    pool.leader = this
    keep(pool, pool.held + pool.retention)
  elseif pool.leader ~= this then
    pool.leader = this
    keep(pool, now + pool.retention)
  end
  pool.keep_ms = LEADER_TTL
end
