-- Stores the usage and the ban of a key, or a reply kept for repeats, from an export.
--
-- @include ban check prefetch replay usage_numbers
--
-- keys[1] usage string: the counters of the key.
-- keys[2] ban string: the ban of the key.
-- keys[3] replay string: the reply to a request.
-- argv[1] what m for usage and ban, r for the reply.
-- argv[2] forget when the usage or the reply no longer has an effect, µs; 0 for no usage.
-- argv[3] names of the counters, each with a zero byte at its end.
-- argv[4] numbers u64 each. For each counter: kind, forget, number of notices, number of usage numbers,
--         above and at of each notice, the usage numbers (lib/usage_numbers.lua). For the reply:
--         verdict, crossed, retry ms, count and reset ms of each limit.
-- argv[5] ends of the ban, µs; 0 for none.
-- argv[6] ban_forget when its strikes are forgotten, µs.
-- argv[7] strikes of the ban.
-- argv[8] reason of the ban.
-- argv[9] actor of the ban.
--
-- Returns {0}.
-- Writes usage, ban and replay, TTL: until each is forgotten.
-- Cost O(counters + buckets): 300 µs for 32 counters of sliding windows.

-- Returns the numbers of an argument.
local function numbers_of(text)
  local numbers, at = {}, 1
  for i = 1, #text / 8 - 3, 4 do -- four at once: a call costs more than reading a number
    numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], at = scan('<I8I8I8I8', text, at)
  end
  for i = #numbers + 1, #text / 8 do
    numbers[i], at = scan('<I8', text, at)
  end
  return numbers
end

-- Encodes the counters as they are stored (lib/counters.lua).
local function stored(names, numbers)
  local parts, from, at, name = {}, 1, 1, nil
  while from <= #names do
    name, from = scan('s', names, from)
    local kind, forget, notices, count = numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]
    local first = at + 4 + 2 * notices
    local usage = usage_numbers_pack(kind, numbers, first, first + count - 1)
    parts[#parts + 1] = pack('<sBI8BI2', name, kind, forget, notices, #usage) .. usage
    for i = at + 4, first - 1, 2 do
      parts[#parts + 1] = pack('<I4I8', numbers[i], numbers[i + 1])
    end
    at = first + count
  end
  return table.concat(parts)
end

local function decide(keys, argv, now)
  local usage_key, ban_key, replay_key, what, forget = keys[1], keys[2], keys[3], argv[1], tonumber(argv[2])
  local numbers, ends, reason, actor = numbers_of(argv[4]), tonumber(argv[5]), argv[8], argv[9]
  local ban_forget, strikes = tonumber(argv[6]), tonumber(argv[7])
  if what == 'r' and forget <= now then
    return { OK }
  elseif what == 'r' then
    local verdict, crossed, retry = numbers[1], numbers[2] * CHECK_CROSSED, numbers[3]
    local answer = { verdict, crossed, retry }
    if ends > 0 then
      answer = { verdict, crossed + CHECK_BAN_FOLLOWS, retry, ends, strikes, reason, actor }
    end
    for i = 4, #numbers do
      answer[#answer + 1] = numbers[i]
    end
    replay_write(replay_key, answer, forget - now, now)
    return { OK }
  end
  if forget > now then
    prefetch_set(usage_key, stored(argv[3], numbers), forget - now)
  end
  if ends > 0 and ban_forget > now then
    ban_write(ban_key, { ends = ends, forget = ban_forget, strikes = strikes, reason = reason, actor = actor }, now)
  end
  return { OK }
end
