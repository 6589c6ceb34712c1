-- Sliding windows. Usage: width u64, last u64, total u64, then the buckets, the oldest first:
-- number mod 256 u8, count u32; twice if its count has more bits. A bucket's number is its time
-- divided by the width; `last` is the number of the newest bucket. `extra` is the bucket width in
-- µs, a power of two.
--
-- @include sliding_bucket usage
local sliding_window = { least = 24, each = 5 }

function sliding_window.load(limit, text, at, size, now)
  limit.body, limit.last, limit.total = '', 0, 0
  if not at then
    return
  end
  local width, last, total, from = scan('<I8I8I8', text, at)
  assert(width > 0 and width * last <= TIME_MAX, USAGE_UNREADABLE)
  local body = sub(text, from, at + size - 1)
  limit.moved = body ~= '' and (width ~= limit.extra or last * width > now)
  if limit.moved then
    return sliding_bucket_convert(limit, body, width, last, now)
  end
  from = 1
  while from <= #body do
    local low, count, next = scan('<BI4', body, from)
    if sliding_bucket_end(limit, sliding_bucket_number(last, low)) > now then
      break
    end
    total, from = total - count, next
  end
  assert(total >= 0 and (total == 0) == (from > #body), USAGE_UNREADABLE)
  limit.body, limit.total = sub(body, from), total
  -- Without buckets there is no last bucket, and later buckets may have another width.
  limit.last = limit.body == '' and 0 or last
end

function sliding_window.wait(limit, cost, now)
  local ceiling = limit.ceiling
  local over, at = ceiling == USAGE_COUNT_MAX and 0 or limit.total + cost - ceiling, 1
  while over > 0 do
    if at > #limit.body then
      error(USAGE_UNREADABLE, 0)
    end
    local low, count
    low, count, at = scan('<BI4', limit.body, at)
    over = over - count
    if over <= 0 then
      return sliding_bucket_end(limit, sliding_bucket_number(limit.last, low)) - now
    end
  end
  return 0
end

function sliding_window.spend(limit, cost, now)
  sliding_bucket_add(limit, floor(now / limit.extra), cost)
end

function sliding_window.count(limit)
  return limit.total
end

function sliding_window.reset(limit, now)
  return limit.body == '' and 0 or sliding_bucket_end(limit, limit.last) - now
end

function sliding_window.dump(limit)
  return pack('<I8I8I8', limit.extra, limit.last, limit.total) .. limit.body
end

function sliding_window.since(limit, now)
  return now + 1 - limit.window
end
