-- Counts the leases and queued tasks of a pool, for the limits of its namespace.
--
-- @include leases
--
-- keys[1] leases zset: leases by slot end.
-- keys[2] backlog zset: queued tasks by device and age.
--
-- Returns {0, leases that hold a slot, queued tasks}.
-- Writes nothing.
-- Cost O(log leases): 4 µs.
local function decide(keys, _, now)
  local leases_key, backlog_key = keys[1], keys[2]
  return { OK, leases_count(leases_key, now), call('ZCARD', backlog_key) }
end
