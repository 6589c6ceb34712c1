-- A token bucket as GCRA: a packed value is the time at which the bucket is full again.
--
-- KEYS: the value of each check; a key may occur several times.
-- ARGV: max, window in ms, cost.
-- Returns three numbers for each check, packed in 8 bytes each: 1 if it is refused, the tokens in
-- use, the time in µs until the bucket is full.

local call, scan, pack, ceil = redis.call, struct.unpack, struct.pack, math.ceil
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local max, window, cost = tonumber(ARGV[1]), ARGV[2] * 1000, tonumber(ARGV[3])
local interval = window / max
local increment = cost * interval
local texts, written, replies = call('MGET', unpack(KEYS)), {}, {}
for i = 1, #KEYS do
  local key = KEYS[i]
  local full = written[key]
  if not full then
    local text = texts[i]
    full = text and scan('<I8', text) or 0
  end
  local rest = full > now and full - now or 0
  local refused = 0
  if rest + increment <= window then
    rest = rest + increment
    full = now + rest
    call('SET', key, pack('<I8', full), 'PX', ceil(rest / 1000))
    written[key] = full
  else
    refused = 1
  end
  replies[i] = pack('<I8I8I8', refused, ceil(rest / interval), rest)
end
return table.concat(replies)
