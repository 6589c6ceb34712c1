-- Usage of a key: a counter for each limit name.
--
-- counter  name (ends with 0), kind u8, forget u64, notices u8, size u16, usage
--          (size bytes, by kind), notices (above u32, at u64)
--
-- A counter counts as absent from `forget` on. That of a token bucket without notices counts as absent
-- once it has drained, which can be earlier (rate/check_bucket.lua).
local COUNTERS_BUCKET, COUNTERS_BUCKET_BYTES = 4, 32 -- kind of limits (lib/limits.lua), and size of its usage

-- Reads the counter at position `at`: name, kind, forget, number of notices, size, position of
-- the usage, position of the next counter.
local function counters_read(text, at)
  local name, kind, forget, notices, size, usage = scan('<sBI8BI2', text, at)
  local next = usage + size + notices * 12
  assert(forget <= TIME_MAX and next <= #text + 1)
  if kind == COUNTERS_BUCKET and size == COUNTERS_BUCKET_BYTES and notices == 0 then
    local tat, part = scan('<I8I4', text, usage)
    forget = min(forget, part > 0 and tat + 1 or tat)
  end
  return name, kind, forget, notices, size, usage, next
end
