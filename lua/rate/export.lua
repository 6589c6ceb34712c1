-- Reads the usage and the ban of a key, or a reply kept for repeats, for an export.
--
-- @include ban check counters prefetch replay usage usage_numbers
--
-- keys[1] usage string: the counters of the key.
-- keys[2] ban string: the ban of the key.
-- keys[3] replay string: the reply to a request.
-- argv[1] what m for usage and ban, r for the reply.
--
-- Returns {0, '' the only page}: nothing is stored.
--         {0, '', '' letter, counters …, 0, ban}: a counter is 1, limit, kind, forget, number of
--         notices, (above, at) …, number of numbers, numbers of its usage (lib/usage_numbers.lua); the
--         ban is 0 or 1, ends, forget, strikes, reason, actor.
--         {0, '', 'r' letter, forget, verdict 0..3, crossed 0 or 1, retry ms, ban 0 or 1, ends,
--         strikes, reason, actor, (count, reset ms) …}.
-- Writes nothing.
-- Cost O(counters + buckets): 300 µs for 32 counters of sliding windows.

-- Appends the counters that still have an effect. Returns whether there are any.
local function push_counters(reply, usage_key, now)
  local text, at, some = prefetch_get(usage_key) or '', 1, false
  while at <= #text do
    local name, kind, forget, notices, size, usage, next = counters_read(text, at)
    if forget > now then
      some = true
      for _, value in ipairs({ 1, name, kind, forget, notices }) do
        reply[#reply + 1] = value
      end
      local from = usage + size
      for _ = 1, notices do
        reply[#reply + 1], reply[#reply + 2], from = scan('<I4I8', text, from)
      end
      usage_numbers_push(reply, kind, text, usage, size)
    end
    at = next
  end
  reply[#reply + 1] = 0
  return some
end

local function decide(keys, argv, now)
  local usage_key, ban_key, replay_key, what = keys[1], keys[2], keys[3], argv[1]
  if what == 'r' then
    local answer, forget = replay_read(replay_key, now)
    if not answer then
      return { OK, '' }
    end
    local banned = answer[2] >= CHECK_BAN_FOLLOWS
    local reply = { OK, '', 'r', forget, answer[1], answer[2] % 2, answer[3], banned and 1 or 0 }
    for i = 4, #answer do
      reply[#reply + 1] = answer[i]
    end
    return reply
  end
  local reply = { OK, '', '' }
  local fine, some = pcall(push_counters, reply, usage_key, now)
  if not fine then
    error(USAGE_UNREADABLE, 0)
  end
  local ban = ban_read(ban_key, now)
  if not some and not ban then
    return { OK, '' }
  end
  local of_ban = ban and { 1, ban.ends, ban.forget, ban.strikes, ban.reason, ban.actor } or { 0 }
  for i = 1, #of_ban do
    reply[#reply + 1] = of_ban[i]
  end
  return reply
end
