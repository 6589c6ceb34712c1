-- Drops a key's usage, readable or not.
--
-- keys[1] usage string: the key's counters.
--
-- Returns {0}: it had no usage.
--         {1}: it had usage, or could not be read.
-- Writes usage (removes).
-- Cost O(limit names), at most 32.
local function decide(keys, _, now)
  local usage_key = keys[1]
  local number = 0
  local readable = pcall(function()
    local text, at = call('GET', usage_key) or '', 1
    while at <= #text do
      local _, _, forget, _, _, _, next = read_counter(text, at)
      number, at = number + (forget > now and 1 or 0), next
    end
  end)
  call('DEL', usage_key)
  return { readable and number == 0 and 0 or 1 }
end
