-- Buckets of sliding windows (lib/sliding_window.lua): their numbers and their conversion.
--
-- @include usage

-- Returns a bucket's number from its last byte: a window has at most 122 buckets.
local function sliding_bucket_number(last, low)
  return last - (last - low) % 256
end

-- Returns when the hits of a bucket no longer count: a window after its end, µs.
local function sliding_bucket_end(limit, number)
  return (number + 1) * limit.extra + limit.window
end

-- Converts the buckets to the limit's width, and counts each hit as late as it can have come.
-- After the clock was set back, later buckets move to the current one: they block the key for
-- at most one window.
local function sliding_bucket_convert(limit, body, width, last, now)
  local at, parts, before, counted, total = 1, {}, nil, 0, 0
  local extra, latest, low, count = limit.extra, floor(now / limit.extra), nil, nil
  while at <= #body do
    low, count, at = scan('<BI4', body, at)
    local number = last - (last - low) % 256
    if width ~= extra then
      number = floor(((number + 1) * width - 1) / extra)
    end
    number = number < latest and number or latest
    if (number + 1) * extra + limit.window > now then
      if number == before then
        count = min(counted + count, USAGE_COUNT_MAX) - counted
      elseif before then
        parts[#parts + 1] = pack('<BI4', before % 256, counted)
        counted = 0
      end
      before, counted, total = number, counted + count, total + count
    end
  end
  if before then
    parts[#parts + 1] = pack('<BI4', before % 256, counted)
    limit.body, limit.last, limit.total = table.concat(parts), before, total
  end
end
