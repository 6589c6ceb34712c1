-- Counts a call of a key against a rule and says whether it may pass.
--
-- keys[1] usage_key string: the key's counters
-- keys[2] ban_key string: the key's ban
-- keys[3] replay_key string: the answer kept for repeats of this request
-- keys[4] events_key list: what happens to the keys of the shard
-- argv[1] limits packed, see lib/limits.lua; 1 to 8
-- argv[2] tiers packed: above u32, action u8 (1 warn, 2 throttle, 3 ban), number
--         of durations u8, durations u64 µs; 0 to 8, rising
-- argv[3] memory µs that a ban is remembered after its end
-- argv[4] cost 0..10^9; 0 writes nothing and looks as for 1
-- argv[5] keep µs that the answer is kept for repeats, 0 for not
-- argv[6] subject the key in events, empty where there are none
-- Shared argv[1..3]
--
-- Returns {verdict, flags, retry_after ms or 0, (ends, strikes, reason, actor)
--          with flag 4, then of each limit count, reset_after ms}
--         verdict: 0 allow, 1 warn, 2 throttle, 3 ban
--         flags: 1 crossed, 2 replayed, 4 the ban follows
--         {4}: the key has usage under too many names of limits
-- Writes usage, TTL: until all is given back; ban, TTL: its end and memory;
--        replay, TTL: keep; events, TTL: 24 h, of a call that crosses a level or bans
-- Cost O(limits): 10 µs; a sliding window O(122): up to 55 µs; 32 names of limits 130 µs more

local function share(_, argv, _, first, last)
  local read = {}
  for i = first, last, 4 do
    read[#read + 1], read[#read + 2] = KEYS[i], KEYS[i + 1]
  end
  read_ahead(read)
  local limits, tiers = read_rule(argv[1]), read_tiers(argv[2])
  limits[1].head = head_of(limits[1])
  local plain = #limits == 1 and #tiers == 0 and limits[1]
  return { limits = limits, tiers = tiers, memory = tonumber(argv[3]), plain = plain }
end

-- Each item writes its own keys.
local function write() end

-- The answer as a table, for a ban and for what is kept.
local function answer_of(verdict, flags, wait, ban, limits, now)
  local answer = { verdict, flags, ceil(wait / 1000) }
  if ban then
    answer[4], answer[5], answer[6], answer[7] = ban.ends, ban.strikes, ban.reason, ban.actor
  end
  for i = 1, #limits do
    local limit = limits[i]
    answer[#answer + 1] = limit.algorithm.count(limit)
    answer[#answer + 1] = ceil(limit.algorithm.reset(limit, now) / 1000)
  end
  return answer
end

-- The same of numbers only.
local function packed_answer(verdict, flags, wait, limits, now)
  local answer = pack('<I8I8I8', verdict, flags, ceil(wait / 1000))
  for i = 1, #limits do
    local limit = limits[i]
    local algorithm = limit.algorithm
    answer = answer .. pack('<I8I8', algorithm.count(limit), ceil(algorithm.reset(limit, now) / 1000))
  end
  return answer
end

local function decide(rule, now, usage_key, ban_key, replay_key, events_key, cost, keep, subject)
  local limits, tiers, memory = rule.limits, rule.tiers, rule.memory
  local look = cost == '0'
  keep, cost = look and 0 or tonumber(keep), max(tonumber(cost), 1)
  local plain = rule.plain and keep == 0 and check_plain(rule.plain, usage_key, ban_key, cost, look, now)
  if plain then
    return plain
  end

  local replay = keep > 0 and read_replay(replay_key, now)
  if replay and replay[1] <= WARN then
    return replay
  end
  local readable, meter = pcall(read_meter, limits, usage_key, now)
  if not readable then
    error(UNREADABLE, 0)
  elseif #meter.others + #limits > NAMES_MAX then
    return { 4 }
  end
  local known = read_ban(ban_key, now)
  -- A reset, a lifted ban or a raised limit counts at once.
  if replay and judge(meter, tiers, known, memory, cost, true, now) > WARN then
    return replay
  end

  local verdict, flags, wait, ban, banned, level, total = judge(meter, tiers, known, memory, cost, look, now)
  flags = flags + (ban and BANNED or 0)
  local answer = (ban or keep > 0) and answer_of(verdict, flags, wait, ban, limits, now)
    or packed_answer(verdict, flags, wait, limits, now)
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
