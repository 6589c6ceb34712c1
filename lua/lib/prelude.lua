-- Aliases of library functions, at the start of every script: a local costs less than a field of a
-- global table.
local call, format, match, sub = redis.call, string.format, string.match, string.sub
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, scan = struct.pack, struct.unpack

-- The status in replies that have only one possible status.
local OK = 0

-- Times and tokens stay below 2^52 µs, the year 2112, so that their sums are exact.
local TIME_MAX = 4503599627370495

-- The number of expirations of leases that this script call has appended to histories of pools. If
-- there are any, the reply of the call ends with the number, after the replies of its items and
-- `now`.
local expired_leases = 0
