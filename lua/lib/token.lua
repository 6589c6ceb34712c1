-- What is known of a pool's leases as a whole:
--
-- token  "token horizon": the last fencing token, and the last instant at which a lease or
--        record of the pool can matter; of a pool that failovers hold also
--        " leader began held floor" (lib/failover.lua)

-- The record's parts; 0 and no leader where nothing is known of them.
local function read_token(text)
  if not text then
    return { token = 0, horizon = 0, began = 0, held = 0, floor = 0 }
  end
  local token, horizon, leader, began, held, floor =
    match(text, '^(%d+) (%d+) ?([%x:]*) ?(%d*) ?(%d*) ?(%d*)$')
  local record = {
    token = tonumber(token), horizon = tonumber(horizon), leader = leader ~= '' and leader or nil,
    began = tonumber(began) or 0, held = tonumber(held) or 0, floor = tonumber(floor) or 0,
  }
  if not token or max(record.token, record.horizon, record.began, record.held, record.floor) > TIME_MAX then
    error('CORRUPT fencing token of the pool; ConfigurePool with reset repairs it', 0)
  end
  return record
end

local function token_record(token, horizon, failover)
  local record = digits(token) .. ' ' .. digits(horizon)
  if failover.leader then
    record = record .. ' ' .. failover.leader .. ' ' .. digits(failover.began) .. ' '
      .. digits(failover.held) .. ' ' .. digits(failover.floor)
  end
  return record
end

-- Until when a failover holds a pool, 0 for not; also where that cannot be read.
local function held_until(token_key, now)
  local fine, record = pcall(function()
    return read_token(read(token_key)[1])
  end)
  return fine and record.held > now and record.held or 0
end
