-- The limits of a rule. Times are in µs.
--
-- limit    name (ends with 0), kind u8, ceiling u32, window u64, extra u64
--
-- Kinds: 1 fixed window, 2 calendar window, 3 sliding window, 4 token bucket; their fragments
-- define `extra`. A call that would raise the count above the ceiling is refused.
local COUNT_MAX = 4294967295
local UNREADABLE = 'CORRUPT usage of the key; ResetRate repairs it'

-- Algorithms by kind: load(limit, text, at, size, now), wait(limit, cost, now),
-- spend(limit, cost, now), count(limit), reset(limit, now), dump(limit, now),
-- since(limit, now). A stored usage has `least` bytes and a multiple of `each`. Twins are the
-- structs of src/rate/usage.rs.
local algorithms = {}

local function read_rule(rule)
  local limits, at = {}, 1
  while at <= #rule do
    local name, kind, ceiling, window, extra
    name, kind, ceiling, window, extra, at = scan('<sBI4I8I8', rule, at)
    limits[#limits + 1] = {
      name = name, kind = kind, ceiling = ceiling, window = window, extra = extra, algorithm = algorithms[kind],
    }
  end
  return limits
end
