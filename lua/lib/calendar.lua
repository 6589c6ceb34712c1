-- The calendar of serials: periods since 2000-01-01 on a clock at a fixed offset
-- from UTC, in the years 2000 to 2099, of which every fourth is a leap year. The
-- twin of src/sequence/calendar.rs and dating.rs.
--
-- A dating is text: "unit shift capacity ahead", of which unit is a length in µs,
-- 'month' or 'year', shift the µs that make an instant local, capacity how many
-- values a period has, and ahead how far beyond the clock they may lie, in µs.
-- All values of all periods stay below 2^53.
local floor = math.floor
local DAY, FOUR_YEARS = 86400000000, 4 * 365 + 1
-- Days before each month of a year that is no leap year.
local BEFORE = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 }

-- Year and month, both from 0, of a day since 2000-01-01.
local function year_and_month(day)
  local cycle = floor(day / FOUR_YEARS)
  local year = cycle * 4 + floor(math.max(day - cycle * FOUR_YEARS - 1, 0) / 365)
  local within, leap = day - year * 365 - math.ceil(year / 4), year % 4 == 0 and 1 or 0
  local month = 11
  while month > 0 and within < BEFORE[month + 1] + (month >= 2 and leap or 0) do
    month = month - 1
  end
  return year, month
end

local function period(instant, unit)
  local length = tonumber(unit)
  if length then
    return floor(instant / length)
  end
  local year, month = year_and_month(floor(instant / DAY))
  return unit == 'year' and year or year * 12 + month
end

-- The first value of the clock's period, and the last one that a floor or a step
-- may reach.
local function values_at(dating, now)
  local unit, shift, capacity, ahead = string.match(dating, '^(%S+) (%S+) (%S+) (%S+)$')
  local here = math.max(now + shift, 0)
  local first = period(here, unit) * capacity
  local furthest = (period(math.max(now + shift + ahead, 0), unit) + 1) * capacity - 1
  return format('%.0f', first), format('%.0f', furthest)
end
