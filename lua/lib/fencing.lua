-- Fencing tokens: the time in µs, or the last token plus one if that is greater.
--
-- `fencing_lead` is the lead of tokens over this primary's clock in µs, and the last argument of a
-- script call. It is 0 unless an earlier primary had a clock ahead of this one. Grants that the
-- failover lost can then have tokens above the time of this primary
-- (crates/engine/src/redis/skew.rs).
local fencing_lead = tonumber(ARGV[#ARGV])

local function fencing_next_token(last, now)
  return math.max(last + 1, now + fencing_lead)
end
