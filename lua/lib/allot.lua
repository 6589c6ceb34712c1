-- Which values come next, and the answers that are kept for repeats: text of
-- "forget last step count floor_applied".
local GIVEN, OUT_OF_RANGE, TOO_FAR_AHEAD, UNRESERVED = 0, 1, 2, 3
local FLOOR_APPLIED, REPLAYED = 1, 2
-- The most values of a request: a sequence that lies too far beyond the clock, since
-- that was set back, goes on by so many.
local COUNT_MAX = '10000'

-- One that cannot be read is none.
local function read_replay(key, now)
  local read, text = pcall(call, 'GET', key)
  local forget, last, step, count, flags = string.match(read and text or '', '^(%d+) (%d+) (%d+) (%d+) ([01])$')
  if forget and tonumber(forget) > now then
    return { GIVEN, tonumber(flags) + REPLAYED, last, step, count }
  end
end

local function write_replay(key, answer, keep, now)
  local forget = format('%.0f', now + keep)
  local text = table.concat({ forget, answer[3], answer[4], answer[5], answer[2] }, ' ')
  call('SET', key, text, 'PX', format('%.0f', math.ceil(keep / 1000)))
end

-- Status and the last of the values that follow on `last`, and whether the floor
-- lay above what was next; nothing is written.
local function allot(ask, last, now)
  local base, furthest
  if ask.dating ~= '' then
    base, furthest = values_at(ask.dating, now)
  end
  local first, applied = last and add(last, ask.step) or base or ask.step, 0
  if base then
    first = greater(base, first)
  end
  if ask.floor ~= '' and exceeds(ask.floor, first) then
    first, applied = ask.floor, FLOOR_APPLIED
  end
  local final = add(first, ask.span)
  if exceeds(final, ask.most) then
    return OUT_OF_RANGE
  end
  if last and furthest and exceeds(last, furthest) then
    furthest = add(last, COUNT_MAX)
  end
  if furthest and exceeds(final, furthest) then
    return TOO_FAR_AHEAD, nil, applied == FLOOR_APPLIED and exceeds(ask.floor, furthest) and 1 or 0
  end
  return GIVEN, final, applied
end
