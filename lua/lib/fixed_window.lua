-- Fixed and calendar windows. Usage: start u64, count u32, or u64 if it has more bits. `extra` of a
-- calendar window is added to the time before it is divided into windows, µs.
--
-- @include usage
local FIXED_WINDOW_CALENDAR = 2 -- kind of limits (lib/limits.lua)
local FIXED_WINDOW_COUNT_MAX = 9007199254740991 -- numbers are exact up to it
local fixed_window = { least = 12, each = 4 }

function fixed_window.load(limit, text, at, size, now)
  local start, count
  if at then
    start, count = scan(size == 12 and '<I8I4' or '<I8I8', text, at)
    limit.moved = start > now
  end
  if limit.kind == FIXED_WINDOW_CALENDAR then
    local current = max(floor((now + limit.extra) / limit.window) * limit.window - limit.extra, 0)
    -- A later start: the clock was set back; the count stays.
    count = start and start >= current and count or 0
    start = current
  elseif not start or now >= start + limit.window then
    start, count = now, 0
  else
    -- A clock that was set back must not block the key for longer.
    start = min(start, now)
  end
  limit.start, limit.used = start, count
end

function fixed_window.wait(limit, cost, now)
  return min(limit.used + cost, USAGE_COUNT_MAX) <= limit.ceiling and 0 or limit.start + limit.window - now
end

function fixed_window.spend(limit, cost)
  limit.used = min(limit.used + cost, FIXED_WINDOW_COUNT_MAX)
end

function fixed_window.count(limit)
  return limit.used
end

function fixed_window.reset(limit, now)
  return limit.used == 0 and 0 or limit.start + limit.window - now
end

function fixed_window.dump(limit)
  return pack(limit.used > USAGE_COUNT_MAX and '<I8I8' or '<I8I4', limit.start, limit.used)
end

function fixed_window.since(limit)
  return limit.start
end
