-- What a key has used, as it is stored: a counter for each name of a limit.
--
-- counter  name (ends with 0), kind u8, forget u64, notices u8, size u16, usage
--          (size bytes, by kind), notices (above u32, at u64)
--
-- Kinds: 1 fixed window, 2 calendar window, 3 sliding window, 4 token bucket.
-- A counter is as if it had never been from `forget` on.

-- Calls visit(name, kind, forget, notices, from, usage, size, next) for each counter
-- that still matters; from and next are where it begins and where the next one
-- does, usage is where its usage begins.
local function each_counter(text, now, visit)
  local at = 1
  while at <= #text do
    local name, kind, forget, notices, size, usage = scan('<sBI8BI2', text, at)
    local next = usage + size + notices * 12
    assert(forget <= TIME_MAX and next <= #text + 1)
    if forget > now then
      visit(name, kind, forget, notices, at, usage, size, next)
    end
    at = next
  end
end
