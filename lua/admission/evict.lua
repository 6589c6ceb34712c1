-- Takes a task's slot away; drops a record that cannot be read.
--
-- keys[1] task string: the task's record
-- keys[2] leases zset: the pool's leases by the end of their slot
-- keys[3] settings string: the pool's run-time settings
-- keys[4] queue zset: who waits, by ticket
-- keys[5] places hash: the calls that wait, and their servers
-- argv[1] member device and task, joined by \31
-- argv[2] reason text, 0..256 bytes
-- argv[3] retention_ms ms, 60000..2592000000
-- argv[4] capacity default, 0..1000000
--
-- Returns {0 evicted}
--         {1 replayed: evicted before}
--         {2 ended: it holds no slot}
--         {3 unknown}
-- Writes task, TTL: the retention; leases, queue and places (removes)
-- Cost O(log leases + log waiters); takes at most 500 lapsed places out of the way
local function decide(keys, argv, now)
  local task_key, leases_key, settings_key, queue_key, places_key = keys[1], keys[2], keys[3], keys[4], keys[5]
  local member, reason, retention_ms, default = argv[1], argv[2], tonumber(argv[3]), tonumber(argv[4])

  local readable, task = pcall(function()
    return read_task(read(task_key)[1], now)
  end)
  if not readable then
    -- Without it nobody knows which lease was the task's; it ends by itself.
    call('DEL', task_key)
    return { 3 }
  elseif not task then
    return { 3 }
  elseif task.state == 'E' then
    return { 1 }
  elseif not holds_slot(leases_key, member, task, now) then
    return { 2 }
  end

  call('ZREM', leases_key, lease_member(member, task))
  write_task(task_key, 'E', task, now + retention_ms * 1000, now, ' ' .. reason)
  -- Settings that cannot be read keep nobody from evicting.
  local known, capacity = pcall(function()
    return (read_settings(read(settings_key)[1], default))
  end)
  if known then
    local free = capacity - count_in_use(leases_key, now)
    hand_on(queue_key, places_key, free - 1, free, now)
  end
  return { 0 }
end
