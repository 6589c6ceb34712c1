-- Values packed in binary, little-endian; whole numbers below 2^53 are exact.
-- A third faster than text, most of which is 16-digit times.
local call, format = redis.call, string.format
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, scan = struct.pack, struct.unpack

-- Instants stay below 2^52 µs, the year 2112: sums of them are exact.
local TIME_MAX = 4503599627370495

local function set(key, value, left)
  call('SET', key, value, 'PX', ceil(left / 1000))
end
