-- Reads a pool's settings in force and its usage.
--
-- @include pool_view settings strings token wake_ups
--
-- keys[1] settings string: run-time settings.
-- keys[2] leases zset: leases by slot end.
-- keys[3] queue zset: waiters by ticket.
-- keys[4] places hash: calls of the waiters, and their servers.
-- keys[5] backlog zset: queued tasks by device and age.
-- keys[6] token string: token record (lib/token.lua).
-- argv[1] capacity default, 0..1000000.
-- argv[2] lease_ms default, ms, 100..86400000.
-- argv[3] grace_ms default, ms, 0..2592000000.
-- argv[4] paused default, 0 or 1.
-- argv[5] max_attempts default, 1..1000.
--
-- Returns {0, capacity, in_use, lease_ms, grace_ms, paused, max_attempts, overridden, oldest grant µs
--          or 0, next expire µs or 0, waiters, queued tasks, end of a failover hold µs or 0}.
--         overridden: 1 capacity + 2 lease + 4 grace + 8 paused + 16 max_attempts.
-- Writes queue and places (removes lapsed waiters).
-- Cost O(log leases). Reads the 256 leases that end first: 0.45 ms. A script call removes at most 500
--      lapsed waiters: 2.4 ms.
local function decide(keys, argv, now)
  local settings_key, leases_key, queue_key, places_key = keys[1], keys[2], keys[3], keys[4]
  local backlog_key, token_key = keys[5], keys[6]
  local text = strings_read(settings_key)[1]
  local view = pool_view(OK, leases_key, now, settings_read(
    text, tonumber(argv[1]), tonumber(argv[2]), tonumber(argv[3]), tonumber(argv[4]), tonumber(argv[5])
  ))
  view[#view + 1] = wake_ups_count_waiters(queue_key, places_key, view[2] - view[3], now)
  view[#view + 1] = call('ZCARD', backlog_key)
  view[#view + 1] = token_held_until(token_key, now)
  return view
end
