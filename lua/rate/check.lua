-- Counts a call of a key against a rule and decides whether it may pass.
--
-- @include ban check evaluate limits meter rate_event rate_keys replay tiers usage
--
-- keys[1] usage_key string: the key's counters.
-- keys[2] ban_key string: the key's ban.
-- keys[3] replay_key string: the reply kept for repeats of this request.
-- keys[4] events_key list: history of the key's shard.
-- argv[1] limits packed (lib/limits.lua), 1 to 8.
-- argv[2] tiers packed: above u32, action u8 (1 warn, 2 throttle, 3 ban), number
--         of durations u8, durations u64 µs; 0 to 8 tiers, rising.
-- argv[3] memory strikes are remembered after a ban's end, µs, 1000..2592000000000.
-- argv[4] cost 0..10^9; 0 evaluates a cost of 1 and writes nothing.
-- argv[5] keep TTL of the reply for repeats, µs, 0 for none.
-- argv[6] subject the key in events, empty without events.
-- Shared argv[1..3]
--
-- Returns {verdict, flags, retry_after ms or 0, (ends, strikes, reason, actor) with flag 4,
--          then of each limit count, reset_after ms}.
--         verdict: 0 allow, 1 warn, 2 throttle, 3 ban. flags: 1 crossed, 2 replayed, 4 the ban follows.
--         {4}: the key has usage under too many limit names.
-- Writes usage, TTL: until all of it has expired; ban, TTL: its end and memory; replay,
--        TTL: keep, of a refusal at most its retry_after; events, TTL: 24 h.
-- Cost O(limits): 10 µs; a sliding window O(122): up to 55 µs; 32 limit names 130 µs more.

local function read_shared(_, argv, _, first, last)
  rate_keys_prefetch(first, last)
  return { limits = limits_read(argv[1]), tiers = tiers_read(argv[2]), memory = tonumber(argv[3]) }
end

-- Each item writes its own keys.
local function write() end

local function decide(rule, now, usage_key, ban_key, replay_key, events_key, cost, keep, subject)
  local limits, tiers, memory = rule.limits, rule.tiers, rule.memory
  local peek = cost == '0'
  keep, cost = peek and 0 or tonumber(keep), max(tonumber(cost), 1)

  local replay = keep > 0 and replay_read(replay_key, now)
  if replay and replay[1] <= CHECK_WARN then
    return replay
  end
  local readable, meter = pcall(meter_read, limits, usage_key, now)
  if not readable then
    error(USAGE_UNREADABLE, 0)
  elseif #meter.others + #limits > METER_NAMES_MAX then
    return { CHECK_TOO_MANY_NAMES }
  end
  local known = ban_read(ban_key, now)
  -- A reset, a lifted ban or a raised limit takes effect immediately.
  if replay and evaluate(meter, tiers, known, memory, cost, true, now) > CHECK_WARN then
    return replay
  end

  local verdict, flags, wait, ban, banned, level, total = evaluate(meter, tiers, known, memory, cost, peek, now)
  local answer = evaluate_answer(verdict, flags, wait, ban, limits, now)
  local changed = meter.changed and not peek
  if subject ~= '' and (banned or flags == CHECK_CROSSED) then
    rate_event_append(events_key, verdict, subject, now, tiers[level].above, total, ban, '')
  end
  if changed then
    meter_write(usage_key, meter, now)
  end
  if banned then
    ban_write(ban_key, ban, now)
  end
  if keep > 0 and (changed or banned) then
    -- A refusal is kept only until the same call could be allowed.
    replay_write(replay_key, answer, wait > 0 and min(keep, wait) or keep, now)
  end
  return answer
end
