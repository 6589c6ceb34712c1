-- Drops a key's usage, readable or not.
--
-- @include counters
--
-- keys[1] usage string: the key's counters.
--
-- Returns {0}: it had no usage.
--         {1}: it had usage, or could not be read.
-- Writes usage (removes).
-- Cost O(limit names), at most 32.
local RESET_NO_USAGE, RESET_DROPPED = 0, 1

local function decide(keys, _, now)
  local usage_key = keys[1]
  local number = 0
  local readable = pcall(function()
    local text, at = call('GET', usage_key) or '', 1
    while at <= #text do
      local _, _, forget, _, _, _, next = counters_read(text, at)
      number, at = number + (forget > now and 1 or 0), next
    end
  end)
  call('DEL', usage_key)
  return { readable and number == 0 and RESET_NO_USAGE or RESET_DROPPED }
end
