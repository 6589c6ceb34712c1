-- Buckets of sliding windows (lib/sliding_window.lua): which instants they are of.

-- A window has at most 122 buckets, so a number is known by its last byte.
local function number_of(last, low)
  return last - (last - low) % 256
end

local function gives_back(limit, number)
  return (number + 1) * limit.extra + limit.window
end

-- Counts anew what was counted in buckets of another width, as late as it can
-- have been; or after a clock that was set back, which must not hold a key up
-- for longer.
local function recount(limit, body, width, last, now)
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
        count = min(counted + count, COUNT_MAX) - counted
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
