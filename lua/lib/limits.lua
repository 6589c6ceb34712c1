-- The limits of a rule. Times are in µs.
--
-- @include fixed_window sliding_window token_bucket
--
-- limit    name (ends with 0), kind u8, ceiling u32, window u64, extra u64
--
-- Kinds: 1 fixed window, 2 calendar window, 3 sliding window, 4 token bucket; their fragments
-- define `extra`. A call that would raise the count above the ceiling is refused.

local LIMITS_ALGORITHMS = { fixed_window, fixed_window, sliding_window, token_bucket } -- by kind

local function limits_read(rule)
  local limits, at = {}, 1
  while at <= #rule do
    local name, kind, ceiling, window, extra
    name, kind, ceiling, window, extra, at = scan('<sBI4I8I8', rule, at)
    limits[#limits + 1] = {
      name = name, kind = kind, ceiling = ceiling, window = window, extra = extra, algorithm = LIMITS_ALGORITHMS[kind],
    }
  end
  return limits
end

-- Appends the count and the time until the reset (ms, rounded up) of each limit to a reply.
local function limits_append_usage(reply, limits, now)
  for i = 1, #limits do
    local limit = limits[i]
    reply[#reply + 1] = limit.algorithm.count(limit)
    reply[#reply + 1] = ceil(limit.algorithm.reset(limit, now) / 1000)
  end
end
