-- Calendar of serials: periods since 2000-01-01 on a clock with a fixed offset from UTC, in the
-- years 2000 to 2099. Every fourth of them is a leap year. Twin of crates/core/src/sequence/calendar.rs and
-- dating.rs.
--
-- A dating is text: "unit shift capacity ahead". unit is the length of a period in µs, 'month'
-- or 'year'. shift is added to a time to get local time since 2000-01-01, in µs. capacity is
-- the number of values of a period. ahead is how far values may be ahead of the clock, in µs.
-- All values of all periods stay below 2^53.
local CALENDAR_DAY, CALENDAR_FOUR_YEARS = 86400000000, 4 * 365 + 1
-- Days before each month of a common year.
local CALENDAR_BEFORE = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 }

-- Returns year and month, both from 0, of a day since 2000-01-01.
local function calendar_year_and_month(day)
  local cycle = floor(day / CALENDAR_FOUR_YEARS)
  local year = cycle * 4 + floor(math.max(day - cycle * CALENDAR_FOUR_YEARS - 1, 0) / 365)
  local within, leap = day - year * 365 - math.ceil(year / 4), year % 4 == 0 and 1 or 0
  local month = 11
  while month > 0 and within < CALENDAR_BEFORE[month + 1] + (month >= 2 and leap or 0) do
    month = month - 1
  end
  return year, month
end

local function calendar_period(instant, unit)
  local length = tonumber(unit)
  if length then
    return floor(instant / length)
  end
  local year, month = calendar_year_and_month(floor(instant / CALENDAR_DAY))
  return unit == 'year' and year or year * 12 + month
end

-- Returns the first value of the clock's period, and the last value that a floor or a step may
-- reach.
local function calendar_values(dating, now)
  local unit, shift, capacity, ahead = string.match(dating, '^(%S+) (%S+) (%S+) (%S+)$')
  local here = math.max(now + shift, 0)
  local first = calendar_period(here, unit) * capacity
  local furthest = (calendar_period(math.max(now + shift + ahead, 0), unit) + 1) * capacity - 1
  return format('%.0f', first), format('%.0f', furthest)
end
