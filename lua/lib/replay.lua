-- Reply of a check, kept for repeats of its request: forget u64, status u8, flags u8, retry u64
-- (ms). With flag 4 the ban (ends u64, strikes u32, reason, actor, each ends with 0). Then of
-- each limit count u32 and reset u64 (ms).
local CROSSED, REPLAYED, BANNED = 1, 2, 4

local function parse_replay(text, now)
  local forget, status, flags, retry, at = scan('<I8BBI8', text)
  assert(forget <= TIME_MAX and status <= 3 and retry <= TIME_MAX and flags < 8 and flags % 4 < REPLAYED)
  if forget <= now then
    return nil
  end
  local answer = { status, flags + REPLAYED, retry }
  if flags >= BANNED then
    answer[4], answer[5], answer[6], answer[7], at = scan('<I8I4ss', text, at)
  end
  while at <= #text do
    local count, reset
    count, reset, at = scan('<I4I8', text, at)
    assert(reset <= TIME_MAX)
    answer[#answer + 1], answer[#answer + 2] = count, reset
  end
  return answer
end

-- Returns a kept reply; an unreadable one counts as none, and the next reply replaces it.
local function read_replay(key, now)
  local read, answer = pcall(function()
    local text = call('GET', key)
    return text and parse_replay(text, now) or nil
  end)
  return read and answer or nil
end

local function write_replay(key, answer, left, now)
  local parts = { pack('<I8BBI8', now + left, answer[1], answer[2], answer[3]) }
  local first = 4
  if answer[2] >= BANNED then
    parts[2] = pack('<I8I4ss', answer[4], answer[5], answer[6], answer[7])
    first = 8
  end
  for i = first, #answer, 2 do
    parts[#parts + 1] = pack('<I4I8', answer[i], answer[i + 1])
  end
  set(key, table.concat(parts), left)
end
