-- Reads what follows in a pool on the event of a number.
--
-- keys[1] events list: the history, see lib/events.lua
-- argv[1] after number of an event, 0 for all, empty for none but the last's number
-- argv[2] limit events, 1..1000
--
-- Returns {0, 1 when some are kept no longer, number before the first of these events,
--          number of the last one that there is or 0, event …}
-- Writes nothing
-- Cost O(limit): 2 µs an event; and O(events kept / 100) to find them
local function decide(keys, argv, now)
  return page_events(keys[1], argv[1], tonumber(argv[2]))
end
