-- Decides all items of a call in order, for the plain form of a verb: its common case, in a script
-- that contains nothing else. The verb's own script decides the other items afterwards.
--
-- KEYS  the shared keys of each row of items that have them in common; then, for each key of an
--       item, that key of every item
-- ARGV  for each row: the shared arguments, then a string with the number of its items u32, and for
--       each item its arguments, and the number of equal decisions that it stands for u32
--
-- Without shared keys and arguments, all items are one row.
--
-- A plain script defines decide(at, first, column, argument, number, items): the shared keys of the
-- row follow KEYS[at], the keys of its items KEYS[first], KEYS[first + column] and so on, the shared
-- arguments ARGV[argument]; the items begin at byte 5 of `items`. It appends a reply for each
-- decision (lib/plain.lua). After a failure the rest of the call is undecided.
--
-- Returns {all replies in one string, now}, and if a write failed also the number of decisions that
-- it may have changed and the message. Decisions without a reply are declined.
--
-- @include plain
pcall(function()
  local rows = SHARED_KEYS + SHARED_ARGV > 0 and floor(#ARGV / (SHARED_ARGV + 1)) or 1
  local first = rows * SHARED_KEYS
  local column = (#KEYS - first) / ITEM_KEYS
  for row = 0, rows - 1 do
    local argument = row * (SHARED_ARGV + 1)
    local items = ARGV[argument + SHARED_ARGV + 1]
    local number = scan('<I4', items)
    decide(row * SHARED_KEYS, first, column, argument, number, items)
    first = first + number
  end
end)
return { table.concat(plain_replies), now, plain_failed, plain_message }
