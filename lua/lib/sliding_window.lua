-- Sliding windows. Usage: width u64, last u64, total u64, then the buckets, the oldest first:
-- number mod 256 u8, count u32. A bucket's number is its time divided by the width; `last` is
-- the number of the newest bucket. `extra` is the bucket width in µs, a power of two.
local sliding = { least = 24, each = 5 }
algorithms[3] = sliding

local function add(limit, number, cost)
  local body = limit.body
  if body ~= '' and limit.last == number then
    local count = scan('<I4', body, #body - 3)
    cost = min(count + cost, COUNT_MAX) - count
    limit.body = sub(body, 1, -5) .. pack('<I4', count + cost)
  else
    limit.body = body .. pack('<BI4', number % 256, cost)
    limit.last = number
  end
  limit.total = limit.total + cost
end

function sliding.load(limit, text, at, size, now)
  limit.body, limit.last, limit.total = '', 0, 0
  if not at then
    return
  end
  local width, last, total, from = scan('<I8I8I8', text, at)
  assert(width > 0 and width * last <= TIME_MAX, UNREADABLE)
  local body = sub(text, from, at + size - 1)
  limit.moved = body ~= '' and (width ~= limit.extra or last * width > now)
  if limit.moved then
    return recount(limit, body, width, last, now)
  end
  from = 1
  while from <= #body do
    local low, count, next = scan('<BI4', body, from)
    if gives_back(limit, number_of(last, low)) > now then
      break
    end
    total, from = total - count, next
  end
  assert(total >= 0 and (total == 0) == (from > #body), UNREADABLE)
  limit.body, limit.total = sub(body, from), total
  -- Without buckets there is no last one; the next ones may have another width.
  limit.last = limit.body == '' and 0 or last
end

function sliding.wait(limit, cost, now)
  local over, at = min(limit.total + cost, COUNT_MAX) - limit.ceiling, 1
  while over > 0 do
    if at > #limit.body then
      error(UNREADABLE, 0)
    end
    local low, count
    low, count, at = scan('<BI4', limit.body, at)
    over = over - count
    if over <= 0 then
      return gives_back(limit, number_of(limit.last, low)) - now
    end
  end
  return 0
end

function sliding.spend(limit, cost, now)
  add(limit, floor(now / limit.extra), cost)
end

function sliding.count(limit)
  return min(limit.total, COUNT_MAX)
end

function sliding.reset(limit, now)
  return limit.body == '' and 0 or gives_back(limit, limit.last) - now
end

function sliding.dump(limit)
  return pack('<I8I8I8', limit.extra, limit.last, limit.total) .. limit.body
end

function sliding.since(limit, now)
  return now + 1 - limit.window
end
