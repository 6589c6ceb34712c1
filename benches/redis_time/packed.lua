-- A fixed window in a packed value: one MGET for the batch, a SET for each check.
--
-- KEYS: the value of each check; a key may occur several times.
-- ARGV: max, window in ms, cost.
-- Returns three numbers for each check, packed in 8 bytes each: 1 if it is refused, the count, the
-- rest of the window in µs.
-- Value: end of the window in µs, count.

local call, scan, pack = redis.call, struct.unpack, struct.pack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local max, ttl, cost = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local window = ttl * 1000
local texts, written, replies = call('MGET', unpack(KEYS)), {}, {}
for i = 1, #KEYS do
  local key = KEYS[i]
  local text, ends, count = written[key] or texts[i], 0, 0
  if text then
    ends, count = scan('<I8I8', text)
  end
  if ends <= now then
    ends, count = now + window, 0
  end
  local refused = 0
  if count + cost <= max then
    count = count + cost
    text = pack('<I8I8', ends, count)
    call('SET', key, text, 'PX', ttl)
    written[key] = text
  else
    refused = 1
  end
  replies[i] = pack('<I8I8I8', refused, count, ends - now)
end
return table.concat(replies)
