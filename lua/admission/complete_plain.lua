-- Stores the results of running tasks: the plain form of admission/complete.lua, for tasks that
-- were not queued, in a pool without queued tasks or waiters.
--
-- @include digits events plain plain_pool plain_write pool_event task
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
-- argv[8] report device and task, joined by \31, NUL-terminated; compares u8, 0 to accept any token;
--         the lease's fencing token u64; outcome '1' succeeded, '2' failed; length of the result
--         u32, and the result.
-- Shared keys[1..6], argv[1..7]
-- Plain 3
--
-- Returns {0 completed, capacity, in_use}.
--         {255, 0, 0}: declined.
-- Writes task, TTL: the retention; leases (removes); events, TTL: 24 h.
-- Cost O(log leases): 12 µs, and 80 µs with a result of 64 KiB.
local COMPLETED, NUMBERS = 0, '<I8I8I8'
local ITEM = '<sBI8c1I4c0I4' -- a report, and how many equal reports it stands for

-- Reads the reports up to the first that is not plain. Returns how many precede it.
local function read_reports(pool, texts, first, number, items)
  local from, forget, done, plain = 5, now + pool.retention, {}, 0
  local suffix = '  ' .. digits(now) .. ' '
  for i = 1, number do
    local task_key, member, compares, token, outcome, result, times = KEYS[first + i], nil, nil, nil, nil, nil, nil
    member, compares, token, outcome, result, times, from = scan(ITEM, items, from)
    pool.times[i] = times
    if plain == i - 1 and times == 1 and not done[task_key] then
      local held, grant, expire, slot_end, lease = plain_pool_lease(texts[i + 2], member, compares, token)
      if held then
        plain, done[task_key] = i, true
        pool.news[i] = POOL_EVENT_COMPLETED .. ' ' .. format(DIGITS_FORM, held) .. ' 0 ' .. outcome .. suffix .. member
        pool.keys[i], pool.ended[i] = task_key, lease
        pool.records[i] = pack(TASK_FORM, TASK_DONE, held, grant, expire, slot_end, forget) .. outcome .. result
      end
    end
  end
  return plain
end

local function write(pool)
  events_append(pool.events, pool.history, now, unpack(pool.news, 1, pool.plain))
  call('ZREM', pool.leases, unpack(pool.ended, 1, pool.plain))
  local ttl = digits(ceil(pool.retention / 1000))
  for i = 1, pool.plain do
    call('SET', pool.keys[i], pool.records[i], 'PX', ttl)
  end
end

local function decide(at, first, _, argument, number, items)
  local pool, texts = plain_pool_open(at, first, number, argument)
  if not pool then
    pool, texts = { retention = 0 }, {}
  end
  pool.times, pool.news, pool.ended, pool.keys, pool.records = {}, {}, {}, {}, {}
  pool.plain = read_reports(pool, texts, first, number, items)
  local scores = pool.plain > 0 and call('ZMSCORE', pool.leases, unpack(pool.ended)) or {}
  for i = pool.plain, 1, -1 do
    pool.plain = scores[i] and pool.plain or i - 1
  end
  if pool.plain > 0 then
    plain_write(pool, pool.plain, write)
  end
  for i = 1, number do
    if i <= pool.plain then
      plain_reply(pack(NUMBERS, COMPLETED, pool.capacity, pool.in_use - i), 1)
    else
      plain_reply(pack(NUMBERS, PLAIN_DECLINED, 0, 0), pool.times[i])
    end
  end
end
