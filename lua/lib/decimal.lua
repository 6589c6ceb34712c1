-- Values of sequences, up to 2^63-1, which Lua's numbers cannot represent. They are decimal text,
-- compared by length, then byte by byte, and added in two parts that are both exact.

-- Number of digits of the low part of a value, which a Lua number represents exactly.
local DECIMAL_PART, DECIMAL_PART_END = 15, 1e15

local function decimal_exceeds(one, other)
  if #one ~= #other then
    return #one > #other
  end
  return one > other
end

local function decimal_max(one, other)
  return decimal_exceeds(one, other) and one or other
end

local function decimal_add(one, other)
  local low = tonumber(sub(one, -DECIMAL_PART)) + tonumber(sub(other, -DECIMAL_PART))
  local high = (tonumber(sub(one, 1, -DECIMAL_PART - 1)) or 0) + (tonumber(sub(other, 1, -DECIMAL_PART - 1)) or 0)
  if low >= DECIMAL_PART_END then
    low, high = low - DECIMAL_PART_END, high + 1
  end
  return high > 0 and format('%.0f%015.0f', high, low) or format('%.0f', low)
end

-- Returns whether the text is absent, or a canonical number up to `most`.
local function decimal_is_valid(text, most)
  local canonical = not text or text == '0' or match(text, '^[1-9]%d*$')
  return canonical and not (text and decimal_exceeds(text, most))
end
