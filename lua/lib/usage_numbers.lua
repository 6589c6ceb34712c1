-- The numbers of a stored usage, by kind of its algorithm, for exports and imports: start and count
-- of a window; width of a sliding window, then number and count of each bucket; tat, part, max,
-- window and seen of a token bucket.
--
-- @include sliding_bucket usage
local USAGE_NUMBERS_FORMS = { '<I8I4', '<I8I4', nil, '<I8I4I4I8I8' }
local USAGE_NUMBERS_WINDOW, USAGE_NUMBERS_LONG = 2, '<I8I8' -- the last kind of windows; long counts

-- Appends the number of numbers, and the numbers.
local function usage_numbers_push(reply, kind, text, at, size)
  local numbers = {}
  if kind == 3 then
    local width, last, _, from = scan('<I8I8I8', text, at)
    numbers[1] = width
    while from < at + size do
      local low, count, next = scan('<BI4', text, from)
      numbers[#numbers + 1], numbers[#numbers + 2] = sliding_bucket_number(last, low), count
      from = next
    end
  else
    local form = USAGE_NUMBERS_FORMS[kind] or error(USAGE_UNREADABLE, 0)
    numbers = { scan(kind <= USAGE_NUMBERS_WINDOW and size > 12 and USAGE_NUMBERS_LONG or form, text, at) }
    numbers[#numbers] = nil -- the position after them
  end
  reply[#reply + 1] = #numbers
  for i = 1, #numbers do
    reply[#reply + 1] = numbers[i]
  end
end

-- Encodes the usage of these numbers, from position `first` to `last`.
local function usage_numbers_pack(kind, numbers, first, last)
  if kind <= USAGE_NUMBERS_WINDOW and numbers[last] > USAGE_COUNT_MAX then
    return pack(USAGE_NUMBERS_LONG, numbers[first], numbers[last])
  elseif kind ~= 3 then
    return pack(USAGE_NUMBERS_FORMS[kind], unpack(numbers, first, last))
  end
  local parts, total = {}, 0
  for i = first + 1, last, 2 do
    parts[#parts + 1] = pack('<BI4', numbers[i] % 256, numbers[i + 1])
    total = total + numbers[i + 1]
  end
  local newest = last > first and numbers[last - 1] or 0
  return pack('<I8I8I8', numbers[first], newest, total) .. table.concat(parts)
end
