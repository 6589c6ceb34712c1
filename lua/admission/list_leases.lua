-- Reads a page of the leases that hold a slot, in the order of their slot ends.
--
-- @include leases
--
-- keys[1] leases zset: leases by slot end.
-- argv[1] limit leases, 1..1000.
-- argv[2] after_end slot end of the previous page's last lease, µs, or empty.
-- argv[3] after_member device and task of that lease, or empty.
-- argv[4] after_token its token, or empty.
-- argv[5] after_grant when it was granted, µs, or empty.
-- argv[6] after_expire when it expires, µs, or empty.
-- argv[7] after_attempt its attempt, 0 if its task was never queued, or empty.
--
-- Returns {0, more 0 or 1, slot_end and attempt of the last lease or 0, (member, token, grant,
--          expire) …}.
-- Writes nothing.
-- Cost O(log leases + limit): 4 µs a lease.
local function decide(keys, argv, now)
  local leases_key = keys[1]
  local limit, after_end = tonumber(argv[1]), argv[2]

  local start = call('ZCOUNT', leases_key, '-inf', format('%.0f', now))
  if after_end ~= '' then
    local after = {
      token = tonumber(argv[4]), grant = tonumber(argv[5]), expire = tonumber(argv[6]), attempt = tonumber(argv[7]),
    }
    -- If that lease has been removed, continue at the first lease with the same slot end.
    local rank = call('ZRANK', leases_key, leases_encode(argv[3], after))
    local follows = rank and rank + 1 or call('ZCOUNT', leases_key, '-inf', '(' .. after_end)
    start = math.max(start, follows)
  end
  local page = call('ZRANGE', leases_key, start, start + limit, 'WITHSCORES')
  local last = math.min(#page, 2 * limit)
  local reply = { OK, page[2 * limit + 1] and 1 or 0, tonumber(page[last] or 0), 0 }
  for i = 1, last, 2 do
    local member, token, grant, expire, attempt = leases_decode(page[i])
    if not member or #member > 1024 then
      error('CORRUPT lease in the pool; ConfigurePool with reset repairs it', 0)
    end
    local at = #reply
    reply[4], reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = attempt, member, token, grant, expire
  end
  return reply
end
