-- Allocates the next values of a sequence, and keeps replies for repeats. A kept reply is text:
-- "forget last step count floor_applied".
--
-- @include calendar decimal
local ALLOCATION_GIVEN, ALLOCATION_OUT_OF_RANGE = 0, 1
local ALLOCATION_TOO_FAR_AHEAD, ALLOCATION_UNRESERVED = 2, 3
-- Flags of a reply.
local ALLOCATION_FLOOR_APPLIED, ALLOCATION_REPLAYED = 1, 2
-- Maximum number of values of one request. A sequence that is too far beyond the clock, because the
-- clock was set back or a reservation was skipped, advances by at most this many values a call.
local ALLOCATION_COUNT_MAX = '10000'
-- Largest step. It may exceed the highest value of a sequence.
local ALLOCATION_STEP_MAX = '9223372036854775807'

-- Returns a kept reply, and the time until which it is kept. An unreadable one counts as absent.
local function allocation_read_replay(key, most, now)
  local read, text = pcall(call, 'GET', key)
  local form = '^(%d+) (%d+) (%d+) (%d+) ([01])$'
  local forget, last, step, count, flags = match(read and text or '', form)
  if not forget or tonumber(forget) <= now then
    return nil
  end
  local values = decimal_is_valid(last, most) and decimal_is_valid(step, ALLOCATION_STEP_MAX)
  if values and decimal_is_valid(count, ALLOCATION_COUNT_MAX) and step ~= '0' and count ~= '0' then
    return { ALLOCATION_GIVEN, tonumber(flags) + ALLOCATION_REPLAYED, last, step, count }, tonumber(forget)
  end
end

local function allocation_write_replay(key, answer, keep, now)
  local forget = format('%.0f', now + keep)
  local text = table.concat({ forget, answer[3], answer[4], answer[5], answer[2] }, ' ')
  call('SET', key, text, 'PX', format('%.0f', math.ceil(keep / 1000)))
end

-- Returns the status, the last allocated value, and 1 if the floor was applied. With
-- ALLOCATION_TOO_FAR_AHEAD the last result is 1 if the floor is the cause. Writes nothing.
local function allocation_next(ask, last, now)
  local base, furthest
  if ask.dating ~= '' then
    base, furthest = calendar_values(ask.dating, now)
  end
  local first, applied = last and decimal_add(last, ask.step) or base or ask.step, 0
  if base then
    first = decimal_max(base, first)
  end
  if ask.floor ~= '' and decimal_exceeds(ask.floor, first) then
    first, applied = ask.floor, ALLOCATION_FLOOR_APPLIED
  end
  local final = decimal_add(first, ask.span)
  if decimal_exceeds(final, ask.most) then
    return ALLOCATION_OUT_OF_RANGE
  elseif not base or not decimal_exceeds(final, furthest) then
    return ALLOCATION_GIVEN, final, applied
  end
  local beyond = last and decimal_exceeds(last, furthest) and applied == 0
  if beyond and not decimal_exceeds(final, decimal_add(last, ALLOCATION_COUNT_MAX)) then
    return ALLOCATION_GIVEN, final, applied
  end
  local by_floor = applied == ALLOCATION_FLOOR_APPLIED and decimal_exceeds(ask.floor, furthest)
  return ALLOCATION_TOO_FAR_AHEAD, nil, by_floor and 1 or 0
end
