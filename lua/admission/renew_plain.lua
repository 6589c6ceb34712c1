-- Extends running leases: the plain form of admission/renew.lua, for tasks that were not queued, in
-- a pool without queued tasks, waiters or failover holds.
--
-- @include digits plain plain_grant plain_pool pool_event task
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
-- argv[8] request device and task, joined by \31, NUL-terminated; compares u8, 0 to accept any token;
--         the lease's fencing token u64; lease duration u32, ms, 0 for the pool's.
-- Shared keys[1..6], argv[1..7]
-- Plain 4
--
-- Returns {0 renewed, token, grant, expire}.
--         {255, 0, 0, 0}: declined.
-- Writes task, TTL: its slot end and retention; token, TTL: the pool's last slot end and retention;
--        leases, TTL: the same and 24 h; events, TTL: 24 h.
-- Cost O(log leases): 14 µs.
local RENEWED = 0
local ITEM = '<sBI8I4I4' -- a request, and how many equal requests it stands for

local function decide(at, first, _, argument, number, items)
  local pool, texts = plain_grant_open(at, first, number, argument)
  local renewed, from = {}, 5
  local suffix, reply = ' 0 0  ' .. digits(now) .. ' ', pack('<I8', RENEWED)
  for i = 1, number do
    local task_key, member, compares, token, lease_ms, times = KEYS[first + i], nil, nil, nil, nil, nil
    member, compares, token, lease_ms, times, from = scan(ITEM, items, from)
    local held, grant, lease
    if pool and times == 1 and not renewed[task_key] then
      held, grant, _, _, lease = plain_pool_lease(texts[i + 2], member, compares, token)
    end
    if held and call('ZSCORE', pool.leases, lease) then
      renewed[task_key], pool.gone[#pool.gone + 1] = true, lease
      local event = POOL_EVENT_RENEWED .. ' ' .. format(DIGITS_FORM, held) .. suffix
      plain_grant_add(pool, task_key, member, TASK_DISCLOSED, held, grant, lease_ms, event, reply)
    else
      if pool then
        plain_grant_flush(pool)
        pool = nil -- requests for one pool are decided in order: once one is declined, so are the rest
      end
      plain_reply(pack('<I8I8I8I8', PLAIN_DECLINED, 0, 0, 0), times)
    end
  end
  if pool then
    plain_grant_flush(pool)
  end
end
