-- A pool's token record, "token horizon": the last fencing token, and the last time at which a lease
-- or record of the pool can matter. A pool with failover holds, and one that is held after a loss of
-- the store, adds " primary_id began held floor" (lib/failover.lua); the primary_id can be empty.
--
-- @include digits strings

-- Decodes the record; zeros and no primary id if there is none.
local function token_decode(text)
  if not text then
    return { token = 0, horizon = 0, began = 0, held = 0, floor = 0 }
  end
  local token, horizon, primary_id, began, held, floor =
    match(text, '^(%d+) (%d+) ?([%x:]*) ?(%d*) ?(%d*) ?(%d*)$')
  local record = {
    token = tonumber(token), horizon = tonumber(horizon), primary_id = primary_id ~= '' and primary_id or nil,
    began = tonumber(began) or 0, held = tonumber(held) or 0, floor = tonumber(floor) or 0,
  }
  if not token or max(record.token, record.horizon, record.began, record.held, record.floor) > TIME_MAX then
    error('CORRUPT fencing token of the pool; ConfigurePool with reset repairs it', 0)
  end
  return record
end

local function token_encode(token, horizon, failover)
  local record = digits(token) .. ' ' .. digits(horizon)
  if failover.primary_id or (failover.held or 0) > 0 then
    record = record .. ' ' .. (failover.primary_id or '') .. ' ' .. digits(failover.began) .. ' '
      .. digits(failover.held) .. ' ' .. digits(failover.floor)
  end
  return record
end

-- Returns the end of the failover hold; 0 if there is none or the record is unreadable.
local function token_held_until(token_key, now)
  local fine, record = pcall(function()
    return token_decode(strings_read(token_key)[1])
  end)
  return fine and record.held > now and record.held or 0
end
