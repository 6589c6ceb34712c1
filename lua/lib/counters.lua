-- Usage of a key: a counter for each limit name.
--
-- counter  name (ends with 0), kind u8, forget u64, notices u8, size u16, usage
--          (size bytes, by kind), notices (above u32, at u64)
--
-- A counter counts as absent from `forget` on.

-- Reads the counter at position `at`: name, kind, forget, number of notices, size, position of
-- the usage, position of the next counter.
local function counters_read(text, at)
  local name, kind, forget, notices, size, usage = scan('<sBI8BI2', text, at)
  local next = usage + size + notices * 12
  assert(forget <= TIME_MAX and next <= #text + 1)
  return name, kind, forget, notices, size, usage, next
end
