-- Reply of a check, kept for repeats of its request: forget u64, status u8, flags u8, retry u64
-- (ms). With flag 4 the ban (ends u64, strikes u32, reason, actor, each ends with 0). Then for each
-- limit: count u32 and reset u64 (ms).
--
-- @include check prefetch
local function replay_decode(text, now)
  local forget, status, flags, retry, at = scan('<I8BBI8', text)
  assert(forget <= TIME_MAX and status <= CHECK_BAN and retry <= TIME_MAX)
  assert(flags < 2 * CHECK_BAN_FOLLOWS and flags % CHECK_BAN_FOLLOWS < CHECK_REPLAYED)
  if forget <= now then
    return nil
  end
  local answer = { status, flags + CHECK_REPLAYED, retry }
  if flags >= CHECK_BAN_FOLLOWS then
    answer[4], answer[5], answer[6], answer[7], at = scan('<I8I4ss', text, at)
  end
  while at <= #text do
    local count, reset
    count, reset, at = scan('<I4I8', text, at)
    assert(reset <= TIME_MAX)
    answer[#answer + 1], answer[#answer + 2] = count, reset
  end
  return answer, forget
end

-- Returns a kept reply, and the time until which it is kept. An unreadable one counts as absent,
-- and the next reply replaces it.
local function replay_read(key, now)
  local read, answer, forget = pcall(function()
    local text = call('GET', key)
    if text then
      return replay_decode(text, now)
    end
  end)
  if read then
    return answer, forget
  end
end

local function replay_write(key, answer, left, now)
  local parts = { pack('<I8BBI8', now + left, answer[1], answer[2], answer[3]) }
  local first = 4
  if answer[2] >= CHECK_BAN_FOLLOWS then
    parts[2] = pack('<I8I4ss', answer[4], answer[5], answer[6], answer[7])
    first = 8
  end
  for i = first, #answer, 2 do
    parts[#parts + 1] = pack('<I4I8', answer[i], answer[i + 1])
  end
  prefetch_set(key, table.concat(parts), left)
end
