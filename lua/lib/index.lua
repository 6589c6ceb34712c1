-- Shared by the scripts of lua/index: an index is a zset of partition names by
-- the time they were last noted, so a name only ever moves towards the end.
local call, format = redis.call, string.format
