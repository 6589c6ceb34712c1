-- Decides every item of the call in order. Items in a row that have keys and arguments in
-- common are a run: what they share is read once, and what they change is written once.
--
-- KEYS  of each run the shared keys, then those of its items
-- ARGV  of each run how many items it has, the shared arguments, then those of its items;
--       of a script that gives out tokens last of all how far they run ahead (lib/ahead.lua)
--
-- A script that shares defines share(keys, argv, now, first, last), of which `first` and
-- `last` are where in KEYS the keys of the items are, decide(shared, now, ...) with an
-- item's keys and arguments, and write(shared, now). Whatever fails before its first write
-- leaves Redis as it was: an item that does answers {-1, message}, its neighbours are
-- decided all the same; a `write` that does is the answer of all that it was for.
local replies, key, argument = {}, 0, 0

-- redis.call raises a table since Redis 7, a string before.
local function failure(raised)
  return { -1, type(raised) == 'table' and raised.err or tostring(raised) }
end

-- Writes what the items from reply `first` on have changed.
local function finish(shared, first)
  local written, raised = pcall(write, shared, now)
  for i = written and #replies + 1 or first, #replies do
    replies[i] = failure(raised)
  end
end

while key < #KEYS do
  local count = tonumber(ARGV[argument + 1])
  local keys = { unpack(KEYS, key + 1, key + SHARED_KEYS) }
  local argv = { unpack(ARGV, argument + 2, argument + 1 + SHARED_ARGV) }
  key, argument = key + SHARED_KEYS, argument + 1 + SHARED_ARGV
  local last, shared, first = key + count * ITEM_KEYS, nil, nil
  for _ = 1, count do
    local fine, reply = true, nil
    if not shared then
      first = #replies + 1
      fine, reply = pcall(share, keys, argv, now, key + 1, last)
      shared = fine and reply or nil
    end
    if fine then
      fine, reply = pcall(decide, shared, now, item(key, argument))
    end
    replies[#replies + 1] = fine and reply or failure(reply)
    key, argument = key + ITEM_KEYS, argument + ITEM_ARGV
    if shared and (not fine or shared.stale) then
      -- What is known of what they share may not hold any longer.
      finish(shared, first)
      shared = nil
    end
  end
  if shared then
    finish(shared, first)
  end
end
return replies
