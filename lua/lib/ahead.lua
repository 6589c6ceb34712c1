-- Fencing tokens: the time in µs, or one above the last token.
--
-- `ahead` is how far tokens run ahead of this clock, µs: the last argument of the script
-- call. It is 0 unless another primary led before, whose clock was ahead of this one: the
-- tokens of grants that the failover lost are then above the time here
-- (src/engine/redis/skew.rs).
local ahead = tonumber(ARGV[#ARGV])

local function next_token(last, now)
  return math.max(last + 1, now + ahead)
end
