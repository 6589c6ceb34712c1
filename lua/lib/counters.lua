-- What a key has used, as it is stored: a counter for each name of a limit.
--
-- counter  name (ends with 0), kind u8, forget u64, notices u8, size u16, usage
--          (size bytes, by kind), notices (above u32, at u64)
--
-- A counter is as if it had never been from `forget` on.

-- The counter that begins at `at`: name, kind, forget, notices, size, where its
-- usage begins, and where the next counter does.
local function read_counter(text, at)
  local name, kind, forget, notices, size, usage = scan('<sBI8BI2', text, at)
  local next = usage + size + notices * 12
  assert(forget <= TIME_MAX and next <= #text + 1)
  return name, kind, forget, notices, size, usage, next
end
