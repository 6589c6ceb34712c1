-- Changes a pool's run-time settings. With `reset` it first drops them, and removes stored values
-- that cannot be read.
--
-- @include events pool_event pool_view repair settings strings token wake_ups
--
-- keys[1] settings string: run-time settings.
-- keys[2] token string: token record (lib/token.lua).
-- keys[3] leases zset: leases by slot end.
-- keys[4] queue zset: waiters by ticket.
-- keys[5] places hash: calls of the waiters, and their servers.
-- keys[6] events list: history of the pool.
-- keys[7] queued hash: records of queued tasks.
-- keys[8] backlog zset: queued tasks by device and age.
-- keys[9] due zset: queued tasks by when the sweeper must handle them.
-- argv[1] capacity 0..1000000, empty to keep.
-- argv[2] lease_ms ms, 100..86400000, empty to keep.
-- argv[3] grace_ms ms, 0..2592000000, empty to keep.
-- argv[4] paused 0 or 1, empty to keep.
-- argv[5] max_attempts 1..1000, empty to keep.
-- argv[6] reset 0 or 1.
-- argv[7] capacity default, 0..1000000.
-- argv[8] lease_ms default, ms, 100..86400000.
-- argv[9] grace_ms default, ms, 0..2592000000.
-- argv[10] paused default, 0 or 1.
-- argv[11] max_attempts default, 1..1000.
-- argv[12] history events kept at least, 100..1000000.
--
-- Returns {0, capacity, in_use, lease_ms, grace_ms, paused, max_attempts, overridden, oldest grant µs
--          or 0, next expire µs or 0, waiters, queued tasks, end of a failover hold µs or 0}.
--         overridden: 1 capacity + 2 lease + 4 grace + 8 paused + 16 max_attempts.
-- Writes settings, permanent; events, TTL: 24 h; queue and places (removes). With reset also
--        token, TTL: unchanged; leases, queued, backlog and due (removes).
-- Cost O(log leases): 0.5 ms. A reset checks the 1000 leases that end first: 3 ms.
local function decide(keys, argv, now)
  local pool = {
    settings = keys[1], token = keys[2], leases = keys[3], queue = keys[4], places = keys[5],
    events = keys[6], queued = keys[7], backlog = keys[8], due = keys[9],
  }
  local reset, history = argv[6] == '1', tonumber(argv[12])
  local defaults = {
    tonumber(argv[7]), tonumber(argv[8]), tonumber(argv[9]), tonumber(argv[10]), tonumber(argv[11]),
  }
  local known, was = pcall(function()
    return (settings_read(strings_read(pool.settings)[1], defaults[1]))
  end)
  if reset then
    repair(pool, now)
  end

  local text = strings_read(pool.settings)[1]
  local values = { '', '', '', '', '' }
  if text then
    settings_read(text)
    values = { settings_decode(text) }
  end
  local asked = { argv[1], argv[2], argv[3], argv[4], argv[5] }
  for i = 1, 5 do
    values[i] = asked[i] ~= '' and asked[i] or values[i]
  end
  local record = table.concat(values, ',')
  -- Read before any write: an unreadable lease must leave everything unchanged.
  local view = pool_view(OK, pool.leases, now, settings_read(record, unpack(defaults)))
  local capacity, in_use = view[2], view[3]
  if reset or record ~= (text or ',,,,') then
    events_append(pool.events, history, now, pool_event(POOL_EVENT_CONFIGURED, 0, 0, '', now, 0, capacity))
  end
  if record ~= ',,,,' then
    call('SET', pool.settings, record)
  end
  wake_ups_hand_on(pool.queue, pool.places, (known and was or 0) - in_use, capacity - in_use, now)
  view[#view + 1] = wake_ups_count_waiters(pool.queue, pool.places, capacity - in_use, now)
  view[#view + 1] = call('ZCARD', pool.backlog)
  view[#view + 1] = token_held_until(pool.token, now)
  return view
end
