-- Token buckets: GCRA; crates/core/src/rate/token_bucket.rs cites the source. Usage: tat u64 and
-- part u32, the theoretical arrival time in whole µs and in units of 1/max µs. Then its max u32 (0:
-- the counter has only notices), its window u64 and the time u64 at which it was stored. `extra` is
-- max; the ceiling is the burst.
--
-- @include usage
local token_bucket = { least = 32, each = 65536 }
local TOKEN_BUCKET_EXACT, TOKEN_BUCKET_FILL_MAX = 2 ^ 53, 366 * 86400 * 1000000

-- Returns n emission intervals: whole µs, and a numerator over max.
local function token_bucket_intervals(n, length, rate)
  local whole = floor(length / rate)
  local parts = n * (length - whole * rate)
  local carried = floor(parts / rate)
  return n * whole + carried, parts - carried * rate
end

local function token_bucket_exceeds(whole, part, other, other_part)
  return whole > other or whole == other and part > other_part
end

-- Converts a debt to the same number of calls under the limit's max and window. Debt * max is calls
-- * window: the product stays the same for a new max, and scales with a new window. The result is
--   exact except for the largest values, which differ by less than a microsecond.
local function token_bucket_rescale(limit, debt, part, rate, length)
  local calls = debt * rate + part
  if length ~= limit.window then
    calls = ceil(calls * limit.window / length)
  end
  if calls >= TOKEN_BUCKET_EXACT then
    return min(ceil(calls / limit.extra), TOKEN_BUCKET_FILL_MAX), 0
  end
  debt = floor(calls / limit.extra)
  if debt >= TOKEN_BUCKET_FILL_MAX then
    return TOKEN_BUCKET_FILL_MAX, 0
  end
  return debt, calls - debt * limit.extra
end

function token_bucket.load(limit, text, at, _, now)
  limit.debt, limit.part = 0, 0
  if not at or limit.extra == 0 then
    return
  end
  local tat, part, rate, length, seen = scan('<I8I4I4I8I8', text, at)
  local in_range = (rate > part or rate + part == 0) and length > 0
  assert(in_range and seen <= TIME_MAX and tat - seen <= TOKEN_BUCKET_FILL_MAX, USAGE_UNREADABLE)
  -- A clock that was set back must not block the key for longer.
  limit.moved = seen > now or rate ~= limit.extra or length ~= limit.window
  local debt = tat - max(seen, now)
  if debt < 0 then
    return
  end
  if rate ~= limit.extra or length ~= limit.window then
    debt, part = token_bucket_rescale(limit, debt, part, rate, length)
  end
  limit.debt, limit.part = debt, part
end

-- Returns the debt after a call: how far tat is ahead of now.
local function token_bucket_with(limit, cost)
  local more, more_part = token_bucket_intervals(cost, limit.window, limit.extra)
  local part = limit.part + more_part
  local carried = part >= limit.extra and 1 or 0
  return limit.debt + more + carried, part - carried * limit.extra
end

function token_bucket.wait(limit, cost)
  local whole, part = token_bucket_with(limit, cost)
  if not limit.most then -- the same for all items of a run
    limit.most, limit.most_part = token_bucket_intervals(limit.ceiling, limit.window, limit.extra)
  end
  if not token_bucket_exceeds(whole, part, limit.most, limit.most_part) then
    return 0
  end
  return whole - limit.most + (part > limit.most_part and 1 or 0)
end

function token_bucket.spend(limit, cost)
  limit.debt, limit.part = token_bucket_with(limit, cost)
end

local function token_bucket_owes(limit, n)
  return not token_bucket_exceeds(limit.debt, limit.part, token_bucket_intervals(n, limit.window, limit.extra))
end

-- Returns the lowest number of calls with this debt, at most the burst.
function token_bucket.count(limit)
  -- An estimate; the exact comparison corrects the rounding.
  local n = min(floor(limit.debt * limit.extra / limit.window), limit.ceiling)
  while n > 0 and token_bucket_owes(limit, n - 1) do
    n = n - 1
  end
  while n < limit.ceiling and not token_bucket_owes(limit, n) do
    n = n + 1
  end
  return n
end

function token_bucket.reset(limit)
  return limit.debt + (limit.part > 0 and 1 or 0)
end

function token_bucket.dump(limit, now)
  return pack('<I8I4I4I8I8', now + limit.debt, limit.part, limit.extra, limit.window, now)
end

function token_bucket.since(limit, now)
  return now + 1 - limit.window
end
