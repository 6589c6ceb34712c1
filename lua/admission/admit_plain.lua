-- Grants leases to new tasks: the plain form of admission/admit.lua, for tasks without a record, in
-- a pool without queued tasks, waiters, failover holds or listed leases that have ended.
--
-- @include digits fencing plain plain_grant pool_event spread task
--
-- keys[1] settings string: run-time settings.
-- keys[2] token string: token record (lib/token.lua).
-- keys[3] leases zset: leases by slot end.
-- keys[4] events list: history of the pool.
-- keys[5] queued hash: records of queued tasks.
-- keys[6] queue zset: waiters by ticket.
-- keys[7] task_key string: task record.
-- argv[1] capacity default, 0..1000000.
-- argv[2] lease_ms default, ms, 100..86400000.
-- argv[3] grace_ms default, ms, 0..2592000000.
-- argv[4] paused default, 0 or 1.
-- argv[5] max_attempts default, 1..1000.
-- argv[6] retention_ms ms, 60000..2592000000.
-- argv[7] history events kept at least, 100..1000000.
-- argv[8] request device and task, joined by \31, NUL-terminated; lease duration u32, ms, 0 for the
--         pool's; seed u32, spreads retry_after; lists u8, 1 if a full answer lists the holders.
-- Shared keys[1..6], argv[1..7]
-- Plain 6
--
-- Returns {0 granted, capacity, in_use, token, grant, expire}.
--         {2 full, capacity, in_use, retry_after ms, 0, µs until the end of a lease frees a slot or 0}.
--         {255, 0, 0, 0, 0, 0}: declined.
-- Writes task, TTL: its slot end and retention; token, TTL: the pool's last slot end and retention;
--        leases, TTL: the same and 24 h; events, TTL: 24 h.
-- Cost O(log leases): 12 µs.
local GRANTED, FULL, NUMBERS = 0, 2, '<I8I8I8I8I8I8'
local ITEM = '<sI4I4BI4' -- a request, and how many equal requests it stands for

-- Appends the reply of a full pool.
local function refuse(pool, seed)
  if not pool.wait then
    local last = call('ZREVRANGE', pool.leases, pool.capacity - 1, pool.capacity - 1, 'WITHSCORES')[2]
    pool.wait = tonumber(last) - now
  end
  local retry = spread(pool.wait, seed, now)
  plain_reply(pack(NUMBERS, FULL, pool.capacity, pool.in_use, retry, 0, pool.wait), 1)
end

-- Returns the pool, and whether any of the tasks has a record; nil if the pool is not plain.
local function open(at, first, number, argument)
  local pool = plain_grant_open(at, first, number, argument)
  if not pool or pool.paused == 1 or pool.capacity == 0 or call('ZCARD', pool.leases) > pool.in_use then
    return nil
  end
  pool.middle = ' 0 0 ' .. digits(pool.capacity) .. ' ' .. digits(now) .. ' '
  return pool, call('EXISTS', unpack(KEYS, first + 1, first + number)) > 0
end

-- Grants a task the next lease of the pool.
local function grant(pool, task_key, member, lease_ms)
  local token = fencing_next_token(pool.last_token, now)
  pool.in_use = pool.in_use + 1
  local event = POOL_EVENT_ADMITTED .. ' ' .. format(DIGITS_FORM, token) .. pool.middle
  local reply = pack('<I8I8I8', GRANTED, pool.capacity, pool.in_use)
  plain_grant_add(pool, task_key, member, TASK_LEASED, token, now, lease_ms, event, reply)
end

local function decide(at, first, _, argument, number, items)
  local pool, has_records = open(at, first, number, argument)
  local granted, from = {}, 5
  for i = 1, number do
    local task_key, member, lease_ms, seed, lists, times = KEYS[first + i], nil, nil, nil, nil, nil
    member, lease_ms, seed, lists, times, from = scan(ITEM, items, from)
    if pool then
      local is_full = pool.in_use >= pool.capacity
      local has_record = granted[task_key] or has_records and call('EXISTS', task_key) == 1
      if is_full or has_record or times > 1 then
        plain_grant_flush(pool)
      end
      if has_record or times > 1 or is_full and lists == 1 then
        pool = nil -- requests for one pool are decided in order: once one is declined, so are the rest
      elseif is_full then
        refuse(pool, seed)
      else
        granted[task_key] = true
        grant(pool, task_key, member, lease_ms)
      end
    end
    if not pool then
      plain_reply(pack(NUMBERS, PLAIN_DECLINED, 0, 0, 0, 0, 0), times)
    end
  end
  if pool then
    plain_grant_flush(pool)
  end
end
