-- Token buckets: GCRA; src/rate/token_bucket.rs cites the source. Usage: tat u64 and part u32,
-- the theoretical arrival time in µs and 1/max µs. Then its max u32 (0: the counter holds only
-- notices), its window u64 and the time u64 at which it was stored. `extra` is max; the ceiling
-- is the burst.
local bucket = { least = 32, each = 65536 }
algorithms[4] = bucket

local EXACT = 2 ^ 53
local FILL_MAX = 366 * 86400 * 1000000

-- Returns n emission intervals: whole µs, and a numerator over max.
local function intervals(n, length, rate)
  local whole = floor(length / rate)
  local parts = n * (length - whole * rate)
  local carried = floor(parts / rate)
  return n * whole + carried, parts - carried * rate
end

local function exceeds(whole, part, other, other_part)
  return whole > other or whole == other and part > other_part
end

-- Converts a debt to the same number of calls under the limit's max and window. Debt * max is
-- calls * window: it stays for a new max, and scales with a new window. Exact except for the
-- largest values, which are wrong by less than a microsecond.
local function rescale(limit, debt, part, rate, length)
  local calls = debt * rate + part
  if length ~= limit.window then
    calls = ceil(calls * limit.window / length)
  end
  if calls >= EXACT then
    return min(ceil(calls / limit.extra), FILL_MAX), 0
  end
  debt = floor(calls / limit.extra)
  if debt >= FILL_MAX then
    return FILL_MAX, 0
  end
  return debt, calls - debt * limit.extra
end

function bucket.load(limit, text, at, _, now)
  limit.debt, limit.part = 0, 0
  if not at or limit.extra == 0 then
    return
  end
  local tat, part, rate, length, seen = scan('<I8I4I4I8I8', text, at)
  assert((rate > part or rate + part == 0) and length > 0 and seen <= TIME_MAX and tat - seen <= FILL_MAX, UNREADABLE)
  -- A clock that was set back must not block the key for longer.
  limit.moved = seen > now or rate ~= limit.extra or length ~= limit.window
  local debt = tat - max(seen, now)
  if debt < 0 then
    return
  end
  if rate ~= limit.extra or length ~= limit.window then
    debt, part = rescale(limit, debt, part, rate, length)
  end
  limit.debt, limit.part = debt, part
end

-- Returns the debt after a call: how far tat is ahead of now.
local function with(limit, cost)
  local more, more_part = intervals(cost, limit.window, limit.extra)
  local part = limit.part + more_part
  local carried = part >= limit.extra and 1 or 0
  return limit.debt + more + carried, part - carried * limit.extra
end

function bucket.wait(limit, cost)
  local whole, part = with(limit, cost)
  if not limit.most then -- the same for all items of a run
    limit.most, limit.most_part = intervals(limit.ceiling, limit.window, limit.extra)
  end
  if not exceeds(whole, part, limit.most, limit.most_part) then
    return 0
  end
  return whole - limit.most + (part > limit.most_part and 1 or 0)
end

function bucket.spend(limit, cost)
  limit.debt, limit.part = with(limit, cost)
end

local function owes(limit, n)
  return not exceeds(limit.debt, limit.part, intervals(n, limit.window, limit.extra))
end

-- Returns the lowest number of calls with this debt, at most the burst.
function bucket.count(limit)
  -- An estimate; the exact comparison corrects the rounding.
  local n = min(floor(limit.debt * limit.extra / limit.window), limit.ceiling)
  while n > 0 and owes(limit, n - 1) do
    n = n - 1
  end
  while n < limit.ceiling and not owes(limit, n) do
    n = n + 1
  end
  return n
end

function bucket.reset(limit)
  return limit.debt + (limit.part > 0 and 1 or 0)
end

function bucket.dump(limit, now)
  return pack('<I8I4I4I8I8', now + limit.debt, limit.part, limit.extra, limit.window, now)
end

function bucket.since(limit, now)
  return now + 1 - limit.window
end
