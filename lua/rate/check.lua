-- Counts a call of a key against a rule and says whether it may pass.
--
-- keys[1] usage string: the key's counters
-- keys[2] ban string: the key's ban
-- keys[3] replay string: the answer kept for repeats of this request
-- keys[4] events list: what happens to the keys of the shard
-- argv[1] cost 0..10^9; 0 writes nothing and looks as for 1
-- argv[2] limits packed, see lib/limits.lua; 1 to 8
-- argv[3] tiers packed: above u32, action u8 (1 warn, 2 throttle, 3 ban), number
--         of durations u8, durations u64 µs; 0 to 8, rising
-- argv[4] memory µs that a ban is remembered after its end
-- argv[5] keep µs that the answer is kept for repeats, 0 for not
-- argv[6] subject the key in events, empty where there are none
--
-- Returns {verdict, flags, retry_after ms or 0, (ends, strikes, reason, actor)
--          with flag 4, then of each limit count, reset_after ms}
--         verdict: 0 allow, 1 warn, 2 throttle, 3 ban
--         flags: 1 crossed, 2 replayed, 4 the ban follows
--         {4}: the key has usage under too many names of limits
-- Writes usage, TTL: until all is given back; ban, TTL: its end and memory;
--        replay, TTL: keep; events, TTL: 24 h, of a call that crosses a level or bans
-- Cost O(limits), of a sliding window O(122)

local function decide(keys, argv, now)
  local usage_key, ban_key, replay_key, events_key = keys[1], keys[2], keys[3], keys[4]
  local cost, rule, tiers = tonumber(argv[1]), argv[2], read_tiers(argv[3])
  local memory, keep, subject = tonumber(argv[4]), tonumber(argv[5]), argv[6]
  local look = cost == 0
  keep = look and 0 or keep
  cost = max(cost, 1)

  local replay = keep > 0 and read_replay(replay_key, now)
  if replay and replay[1] <= WARN then
    return replay
  end
  local readable, meter = pcall(read_meter, rule, usage_key, now)
  if not readable then
    error(UNREADABLE, 0)
  elseif #meter.others + #meter.limits > NAMES_MAX then
    return { 4 }
  end
  local known = read_ban(ban_key, now)
  -- A reset, a lifted ban or a raised limit counts at once.
  if replay and judge(meter, tiers, known, memory, cost, true, now) > WARN then
    return replay
  end

  local verdict, flags, wait, ban, banned, level, total = judge(meter, tiers, known, memory, cost, look, now)
  local answer = { verdict, flags + (ban and BANNED or 0), ceil(wait / 1000) }
  if ban then
    answer[4], answer[5], answer[6], answer[7] = ban.ends, ban.strikes, ban.reason, ban.actor
  end
  for i = 1, #meter.limits do
    local limit = meter.limits[i]
    answer[#answer + 1] = limit.algorithm.count(limit)
    answer[#answer + 1] = ceil(limit.algorithm.reset(limit, now) / 1000)
  end
  local changed = meter.changed and not look
  if subject ~= '' and (banned or flags == CROSSED) then
    log_rate_event(events_key, verdict, subject, now, tiers[level].above, total, ban, '')
  end
  if changed then
    write_meter(usage_key, meter, now)
  end
  if banned then
    write_ban(ban_key, ban, now)
  end
  if keep > 0 and (changed or banned) then
    -- A refusal is not repeated once the same call would pass.
    write_replay(replay_key, answer, wait > 0 and min(keep, wait) or keep, now)
  end
  return answer
end
