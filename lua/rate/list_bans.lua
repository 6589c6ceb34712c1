-- Reads a page of a policy's banned keys, in the order of their ends.
--
-- keys[1] banned zset: the policy's banned keys by the end of their ban.
-- argv[1] limit keys, 1..1000.
-- argv[2] after_end end of the previous page's last ban, µs, or empty.
-- argv[3] after_key key of that ban, or empty.
--
-- Returns {0, more 0 or 1, (key, end) …}.
-- Writes nothing.
-- Cost O(log keys + limit): 2 µs a key.
local LIST_TEXT_MAX = 1024

local function decide(keys, argv, now)
  local banned_key = keys[1]
  local limit, after_end, after_key = tonumber(argv[1]), argv[2], argv[3]

  if call('TYPE', banned_key).ok ~= 'zset' then
    return { OK, 0 } -- the next entry creates it again
  end
  local start = call('ZCOUNT', banned_key, '-inf', format('%.0f', now))
  if after_end ~= '' then
    -- If that key has been removed, continue at the first key with the same end.
    local ends = call('ZSCORE', banned_key, after_key)
    local there = ends and format('%.0f', tonumber(ends)) == after_end
    local follows = there and call('ZRANK', banned_key, after_key) + 1
    start = math.max(start, follows or call('ZCOUNT', banned_key, '-inf', '(' .. after_end))
  end
  local page = call('ZRANGE', banned_key, start, start + limit, 'WITHSCORES')
  local reply = { OK, page[2 * limit + 1] and 1 or 0 }
  for i = 1, math.min(#page, 2 * limit) do
    if #page[i] > LIST_TEXT_MAX then
      error('CORRUPT key in the list of bans; DEL of its key, which ends in :banned, repairs it', 0)
    end
    reply[#reply + 1] = page[i]
  end
  return reply
end
