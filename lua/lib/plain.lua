-- Fast path of a check: one limit, no tiers, and a key with no ban and no other counter. Most
-- checks take it. Same answers as read_meter, judge and write_meter, at half the cost.

-- Encodes the part of a counter before its `forget`.
local function head_of(limit)
  return pack('<sB', limit.name, limit.kind)
end

-- Loads the usage of the limit. Returns its `forget`, 0 without usage, nil if the fast path
-- does not apply.
local function load_plain(limit, text, now)
  local algorithm = limit.algorithm
  limit.moved = false
  if not text then
    algorithm.load(limit, nil, nil, nil, now)
    return 0
  end
  local head = limit.head
  if sub(text, 1, #head) ~= head or #text < #head + 11 then
    return nil
  end
  local forget, notices, size, usage = scan('<I8BI2', text, #head + 1)
  local fits = usage + size == #text + 1 and size >= algorithm.least and (size - algorithm.least) % algorithm.each == 0
  if notices > 0 or not fits or forget <= now or forget > TIME_MAX then
    return nil
  end
  algorithm.load(limit, text, usage, size, now)
  return forget
end

-- Returns the reply, nil if the fast path does not apply.
local function check_plain(limit, usage_key, ban_key, cost, look, now)
  local algorithm = limit.algorithm
  local forget = not get(ban_key) and load_plain(limit, get(usage_key), now)
  if not forget then
    return nil
  end
  local reset = algorithm.reset(limit, now)
  local wait = cost > limit.ceiling and limit.window or algorithm.wait(limit, cost, now)
  local changed = forget > 0 and (limit.moved or now + reset > forget)
  if wait == 0 and not look then
    algorithm.spend(limit, cost, now)
    changed, reset = true, algorithm.reset(limit, now)
  end
  if changed and not look and reset > 0 then
    local usage = algorithm.dump(limit, now)
    set(usage_key, limit.head .. pack('<I8BI2', now + reset, 0, #usage) .. usage, reset)
  elseif changed and not look then
    drop(usage_key)
  end
  local count = algorithm.count(limit)
  return pack('<I8I8I8I8I8', wait > 0 and THROTTLE or 0, 0, ceil(wait / 1000), count, ceil(reset / 1000))
end
