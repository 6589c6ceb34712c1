-- Allocates the next values of a sequence, and keeps replies for repeats. A kept reply is text:
-- "forget last step count floor_applied".
local GIVEN, OUT_OF_RANGE, TOO_FAR_AHEAD, UNRESERVED = 0, 1, 2, 3
local FLOOR_APPLIED, REPLAYED = 1, 2
-- Most values of one request. A sequence that is too far beyond the clock, because the clock
-- was set back or a reservation was skipped, advances by at most this many values a call.
local COUNT_MAX = '10000'

-- Returns a kept reply; an unreadable one counts as none.
local function read_replay(key, most, now)
  local read, text = pcall(call, 'GET', key)
  local form = '^(%d+) (%d+) (%d+) (%d+) ([01])$'
  local forget, last, step, count, flags = match(read and text or '', form)
  if not forget or tonumber(forget) <= now then
    return nil
  end
  local values = is_number(last, most) and is_number(step, most) and is_number(count, COUNT_MAX)
  if values and step ~= '0' and count ~= '0' then
    return { GIVEN, tonumber(flags) + REPLAYED, last, step, count }
  end
end

local function write_replay(key, answer, keep, now)
  local forget = format('%.0f', now + keep)
  local text = table.concat({ forget, answer[3], answer[4], answer[5], answer[2] }, ' ')
  call('SET', key, text, 'PX', format('%.0f', math.ceil(keep / 1000)))
end

-- Returns the status, the last allocated value, and 1 if the floor was applied. With
-- TOO_FAR_AHEAD the last result is 1 if the floor is the cause. Writes nothing.
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
  elseif not base or not exceeds(final, furthest) then
    return GIVEN, final, applied
  end
  local beyond = last and exceeds(last, furthest) and applied == 0
  if beyond and not exceeds(final, add(last, COUNT_MAX)) then
    return GIVEN, final, applied
  end
  return TOO_FAR_AHEAD, nil, applied == FLOOR_APPLIED and exceeds(ask.floor, furthest) and 1 or 0
end
