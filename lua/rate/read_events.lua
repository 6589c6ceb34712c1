-- Reads the events of a policy's shard that follow a number.
--
-- @include events
--
-- keys[1] events list: history of the shard (lib/events.lua).
-- argv[1] after number of an event; 0 for all, empty for no events but the last number.
-- argv[2] limit events, 1..1000.
--
-- Returns {0, 1 if some of them are no longer kept, number before the first returned event,
--          number of the last event or 0, event …}.
-- Writes nothing.
-- Cost O(limit): 2 µs an event.
local function decide(keys, argv, _)
  return events_page(keys[1], argv[1], tonumber(argv[2]))
end
