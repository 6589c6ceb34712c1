-- Buckets of sliding windows (lib/sliding_window.lua): their numbers and their conversion.
--
-- @include usage

-- Returns a bucket's number from its last byte, which is unique because a window has at most 122
-- buckets.
local function sliding_bucket_number(last, low)
  return last - (last - low) % 256
end

-- Returns when the hits of a bucket no longer count: a window after its end, µs.
local function sliding_bucket_end(limit, number)
  return (number + 1) * limit.extra + limit.window
end

-- Adds to the newest bucket, or appends one. Hits beyond 32 bits go into a second entry of the
-- bucket; if both entries are full, the count exceeds every limit, and further hits are not
-- counted.
local function sliding_bucket_add(limit, number, cost)
  local body = limit.body
  if body ~= '' and limit.last == number then
    local count = scan('<I4', body, #body - 3)
    local fits = min(cost, USAGE_COUNT_MAX - count)
    body = sub(body, 1, -5) .. pack('<I4', count + fits)
    limit.body, limit.total, cost = body, limit.total + fits, cost - fits
    if cost == 0 or #body > 5 and string.byte(body, -10) == number % 256 then
      return
    end
  end
  limit.body = body .. pack('<BI4', number % 256, cost)
  limit.last, limit.total = number, limit.total + cost
end

-- Converts the buckets to the limit's width, and dates each hit as late as it can have occurred.
-- After the clock was set back, later buckets move to the current one: they block the key for at
-- most one window.
local function sliding_bucket_convert(limit, body, width, last, now)
  local at, low, count = 1, nil, nil
  local extra, latest = limit.extra, floor(now / limit.extra)
  while at <= #body do
    low, count, at = scan('<BI4', body, at)
    local number = last - (last - low) % 256
    if width ~= extra then
      number = floor(((number + 1) * width - 1) / extra)
    end
    number = number < latest and number or latest
    if (number + 1) * extra + limit.window > now then
      sliding_bucket_add(limit, number, count)
    end
  end
end
