-- Fast path of a check: one limit, no tiers, and a key without a ban or another counter. Most
-- checks take it. It gives the same answers as meter_read, evaluate and meter_write, at half the
-- cost.
--
-- @include check prefetch

-- Reads the first two keys of each item of a run: usages and bans. Usually no key has a ban, which
-- a single EXISTS shows.
local function fast_path_prefetch(first, last)
  local read, bans, at = {}, {}, 0
  for i = first, last, ITEM_KEYS do
    at = at + 1
    read[at], bans[at] = KEYS[i], KEYS[i + 1]
  end
  local has_bans = call('EXISTS', unpack(bans)) > 0
  for i = 1, at do
    if has_bans then
      read[at + i] = bans[i]
    else
      prefetch_texts[bans[i]] = false
    end
  end
  prefetch(read)
end

-- Encodes the part of a counter before its `forget`.
local function fast_path_head(limit)
  return pack('<sB', limit.name, limit.kind)
end

-- Loads the usage of the limit. Returns its `forget`, 0 without usage, nil if the fast path
-- does not apply.
local function fast_path_load(limit, text, now)
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

-- Returns the reply; nil if the fast path does not apply.
local function fast_path_check(limit, usage_key, ban_key, cost, peek, now)
  local algorithm = limit.algorithm
  local forget = not prefetch_get(ban_key) and fast_path_load(limit, prefetch_get(usage_key), now)
  if not forget then
    return nil
  end
  local wait = cost > limit.ceiling and limit.window or algorithm.wait(limit, cost, now)
  local spends = wait == 0 and not peek
  if spends then
    algorithm.spend(limit, cost, now)
  end
  local reset = algorithm.reset(limit, now)
  local changed = spends or not peek and forget > 0 and (limit.moved or now + reset > forget)
  if changed and reset > 0 then
    local usage = algorithm.dump(limit, now)
    prefetch_set(usage_key, limit.head .. pack('<I8BI2', now + reset, 0, #usage) .. usage, reset)
  elseif changed then
    prefetch_drop(usage_key)
  end
  local count = algorithm.count(limit)
  local verdict = wait > 0 and CHECK_THROTTLE or CHECK_ALLOW
  return pack('<I8I8I8I8I8', verdict, 0, ceil(wait / 1000), count, ceil(reset / 1000))
end
