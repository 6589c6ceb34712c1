-- Forgets what a key has used, readable or not.
--
-- keys[1] usage string: the key's counters
--
-- Returns {0}: nothing was used
--         {1}: there was usage
-- Writes usage (removes)
-- Cost O(names of limits), at most 32
local function decide(keys, _, now)
  local usage_key = keys[1]
  local number = 0
  local readable = pcall(function()
    each_counter(call('GET', usage_key) or '', now, function()
      number = number + 1
    end)
  end)
  call('DEL', usage_key)
  return { readable and number == 0 and 0 or 1 }
end
