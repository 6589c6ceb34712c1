-- Formats a whole number. `%d` costs a third of `%.0f`, but some builds of Lua cut it to 32 bits.
-- Numbers recur within a batch: results are cached.
local DIGITS_FORM, digits_known = format('%d', TIME_MAX) == '4503599627370495' and '%d' or '%.0f', {}
local function digits(number)
  local known = digits_known[number]
  if not known then
    known = format(DIGITS_FORM, number)
    digits_known[number] = known
  end
  return known
end
