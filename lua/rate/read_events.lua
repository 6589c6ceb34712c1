-- Reads the events of a shard of a policy that follow on a cursor.
--
-- keys[1] events list: the shard's history
-- argv[1] after number of the last event that was seen, 0 for all, empty for the last one's
-- argv[2] limit events, 1..1000
--
-- Returns {0, gap 0 or 1, number before the first event, number of the last one there is, event …}
-- Writes nothing
-- Cost O(events): 2 µs an event
local function decide(keys, argv, _)
  return page_events(keys[1], argv[1], tonumber(argv[2]))
end
