-- Changes a pool's run-time settings; with reset drops them first and repairs
-- stored values that cannot be read.
--
-- keys[1] settings string: the pool's run-time settings
-- keys[2] token string: the last fencing token
-- keys[3] leases zset: the pool's leases by the end of their slot
-- keys[4] queue zset: who waits, by ticket
-- keys[5] places hash: the calls that wait, and their servers
-- argv[1] capacity 0..1000000, empty to leave
-- argv[2] lease_ms ms, 100..86400000, empty to leave
-- argv[3] grace_ms ms, 0..2592000000, empty to leave
-- argv[4] paused 0 or 1, empty to leave
-- argv[5] reset 0 or 1
-- argv[6] capacity default, 0..1000000
-- argv[7] lease_ms default, ms, 100..86400000
-- argv[8] grace_ms default, ms, 0..2592000000
-- argv[9] paused default, 0 or 1
--
-- Returns {0, capacity, in_use, lease_ms, grace_ms, paused, overridden,
--          oldest grant or 0, next expire or 0, waiters}
--         overridden: 1 capacity + 2 lease + 4 grace + 8 paused
-- Writes settings, permanent; queue and places (removes); with reset token and
--        leases (removes)
-- Cost O(log leases); reset checks the 1000 leases that end first
local REPAIR_MAX = 1000
-- No lease ends later: 24 h of lease and 30 days of grace.
local SLOT_MAX = 31 * 86400 * 1000000

local function is_none_or(key, kind)
  local is = call('TYPE', key).ok
  return is == 'none' or is == kind
end

local function repair(settings_key, token_key, leases_key, queue_key, places_key, now)
  call('DEL', settings_key)
  if not is_none_or(queue_key, 'zset') or not is_none_or(places_key, 'hash') then
    call('DEL', queue_key, places_key) -- those that wait take their places again
  end
  if not pcall(function()
    return read_token(read(token_key)[1])
  end) then
    call('DEL', token_key)
  end
  if not is_none_or(leases_key, 'zset') then
    call('DEL', leases_key)
  end
  call('ZREMRANGEBYSCORE', leases_key, format('(%.0f', now + SLOT_MAX), '+inf')
  local first = call('ZRANGEBYSCORE', leases_key, format('(%.0f', now), '+inf', 'LIMIT', 0, REPAIR_MAX)
  for _, member in ipairs(first) do
    local token, grant, expire = match(member, '^[^\31]+\31[^\31]+\31(%d+)\31(%d+)\31(%d+)$')
    if not token or math.max(tonumber(token), tonumber(grant), tonumber(expire)) > TIME_MAX then
      call('ZREM', leases_key, member)
    end
  end
end

local function decide(keys, argv, now)
  local settings_key, token_key, leases_key, queue_key, places_key = keys[1], keys[2], keys[3], keys[4], keys[5]
  local known, was = pcall(function()
    return (read_settings(read(settings_key)[1], tonumber(argv[6])))
  end)
  if argv[5] == '1' then
    repair(settings_key, token_key, leases_key, queue_key, places_key, now)
  end

  local text = read(settings_key)[1]
  local values = { '', '', '', '' }
  if text then
    read_settings(text)
    values = { match(text, '^(%d*),(%d*),(%d*),(%d*)$') }
  end
  for i = 1, 4 do
    values[i] = argv[i] ~= '' and argv[i] or values[i]
  end
  local record = table.concat(values, ',')
  -- Seen before it is written: an unreadable lease must leave all as it was.
  local view = view_pool(0, leases_key, now, read_settings(
    record, tonumber(argv[6]), tonumber(argv[7]), tonumber(argv[8]), tonumber(argv[9])
  ))
  if record ~= ',,,' then
    call('SET', settings_key, record)
  end
  local capacity, in_use = view[2], view[3]
  hand_on(queue_key, places_key, (known and was or 0) - in_use, capacity - in_use, now)
  view[#view + 1] = count_waiters(queue_key, places_key, capacity - in_use, now)
  return view
end
