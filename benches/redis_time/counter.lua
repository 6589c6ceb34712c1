-- A fixed window as a counter of Redis: the first hit starts the window.
--
-- KEYS: the counter of each check; a key may occur several times.
-- ARGV: max, window in ms, cost.
-- Returns three numbers for each check, packed in 8 bytes each: 1 if it is refused, the count, the
-- rest of the window in ms.

local call, pack = redis.call, struct.pack
local max, window, cost = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local first, whole = tonumber(cost), tonumber(window)
local replies = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  local count, refused, rest = call('INCRBY', key, cost), 0, whole
  if count == first then
    call('PEXPIRE', key, window)
  else
    rest = call('PTTL', key)
  end
  if count > max then
    count, refused = call('DECRBY', key, cost), 1
  end
  replies[i] = pack('<I8I8I8', refused, count, rest)
end
return table.concat(replies)
