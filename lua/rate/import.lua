-- Stores the usage and the ban of a key, or a reply kept for repeats, from an export.
--
-- @include ban check prefetch replay usage_numbers
--
-- keys[1] usage string: the counters of the key.
-- keys[2] ban string: the ban of the key.
-- keys[3] replay string: the reply to a request.
-- argv[1] what m for usage and ban, r for the reply.
-- argv[2] forget when the usage or the reply has no effect any more, µs; 0 for no usage.
-- argv[3] counters packed: name (ends with 0), kind u8, forget u64, notices u8, numbers u16, then
--         above u32 and at u64 of each notice, then the numbers u64 of the usage (lib/usage_numbers.lua).
-- argv[4] answer packed: verdict, crossed, retry ms, then count and reset ms of each limit; u64.
-- argv[5] ends of the ban, µs; 0 for none.
-- argv[6] ban_forget when its strikes are forgotten, µs.
-- argv[7] strikes of the ban.
-- argv[8] reason of the ban.
-- argv[9] actor of the ban.
--
-- Returns {0}.
-- Writes usage, ban and replay, TTL: until each is forgotten.
-- Cost O(counters + buckets): 300 µs for 32 counters of sliding windows.

-- Returns the numbers from position `at` on.
local function numbers_of(text, at, count)
  local numbers = {}
  for i = 1, count do
    numbers[i], at = scan('<I8', text, at)
  end
  return numbers, at
end

-- Encodes the counters as they are stored (lib/counters.lua).
local function stored(counters)
  local parts, at = {}, 1
  while at <= #counters do
    local name, kind, forget, notices, count, from = scan('<sBI8BI2', counters, at)
    local numbers
    numbers, at = numbers_of(counters, from + 12 * notices, count)
    local usage = usage_numbers_pack(kind, numbers)
    parts[#parts + 1] = pack('<sBI8BI2', name, kind, forget, notices, #usage) .. usage
    parts[#parts + 1] = sub(counters, from, from + 12 * notices - 1)
  end
  return table.concat(parts)
end

local function decide(keys, argv, now)
  local usage_key, ban_key, replay_key, what, forget = keys[1], keys[2], keys[3], argv[1], tonumber(argv[2])
  local counters, ends, reason, actor = argv[3], tonumber(argv[5]), argv[8], argv[9]
  local ban_forget, strikes = tonumber(argv[6]), tonumber(argv[7])
  if what == 'r' and forget <= now then
    return { OK }
  elseif what == 'r' then
    local packed = numbers_of(argv[4], 1, #argv[4] / 8)
    local answer = { packed[1], packed[2] * CHECK_CROSSED, packed[3] }
    if ends > 0 then
      answer = { packed[1], packed[2] * CHECK_CROSSED + CHECK_BAN_FOLLOWS, packed[3], ends, strikes, reason, actor }
    end
    for i = 4, #packed do
      answer[#answer + 1] = packed[i]
    end
    replay_write(replay_key, answer, forget - now, now)
    return { OK }
  end
  if forget > now then
    prefetch_set(usage_key, stored(counters), forget - now)
  end
  if ends > 0 and ban_forget > now then
    ban_write(ban_key, { ends = ends, forget = ban_forget, strikes = strikes, reason = reason, actor = actor }, now)
  end
  return { OK }
end
