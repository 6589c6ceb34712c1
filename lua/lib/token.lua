-- What is known of a pool's leases as a whole:
--
-- token  "token horizon": the last fencing token, and the last instant at which a lease or
--        record of the pool can matter; of a pool that is held after a failover also
--        " leader held" (lib/failover.lua)

-- The last token, the horizon, the leader, and until when it is held; 0 and none when
-- nothing is known of them.
local function read_token(text)
  if not text then
    return 0, 0, nil, 0
  end
  local token, horizon, leader, held = match(text, '^(%d+) (%d+) ?([%x:]*) ?(%d*)$')
  token, horizon, held = tonumber(token), tonumber(horizon), tonumber(held) or 0
  if not token or max(token, horizon, held) > TIME_MAX then
    error('CORRUPT fencing token of the pool; ConfigurePool with reset repairs it', 0)
  end
  return token, horizon, leader ~= '' and leader or nil, held
end

-- Until when a failover holds a pool, 0 for not; also where that cannot be read.
local function held_until(token_key, now)
  local fine, _, _, _, held = pcall(function()
    return read_token(read(token_key)[1])
  end)
  return fine and held > now and held or 0
end
