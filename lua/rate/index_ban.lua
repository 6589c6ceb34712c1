-- Enters a banned key of a policy into the ban index, for ListBans.
--
-- keys[1] banned zset: the policy's banned keys by the end of their ban.
-- argv[1] key 1..256 bytes.
-- argv[2] ends µs since the epoch.
-- argv[3] most keys kept; the bans that end first are dropped.
--
-- Returns {0}.
-- Writes banned, TTL: the last end of a ban; drops at most 100 keys in a script call.
-- Cost O(log keys): 12 µs.
-- Entries that this script call, with all its items, may still drop.
local trims = 100

local function decide(keys, argv, now)
  local banned_key, key, ends, most = keys[1], argv[1], tonumber(argv[2]), tonumber(argv[3])
  local kind = call('TYPE', banned_key).ok
  if kind ~= 'zset' and kind ~= 'none' then
    call('DEL', banned_key) -- it decides nothing, and later bans refill it
  end
  -- GT: the entries of two servers may arrive in either order, and the later end counts.
  call('ZADD', banned_key, 'GT', format('%.0f', ends), key)
  local ended = call('ZCOUNT', banned_key, '-inf', format('%.0f', now))
  local surplus = math.max(ended, call('ZCARD', banned_key) - most)
  if surplus > 0 and trims > 0 then
    local dropped = math.min(surplus, trims)
    call('ZREMRANGEBYRANK', banned_key, 0, dropped - 1)
    trims = trims - dropped
  end
  local last = call('ZREVRANGE', banned_key, 0, 0, 'WITHSCORES')[2]
  if last then
    call('PEXPIRE', banned_key, format('%.0f', math.max(math.ceil((tonumber(last) - now) / 1000), 1)))
  end
  return { OK }
end
