-- Decides all items of the call in order. Consecutive items with keys and arguments in common
-- are a run: their shared state is read once, and their changes are written once.
--
-- @include failure
--
-- KEYS  for each run: the shared keys, then those of its items
-- ARGV  for each run: its number of items, the shared arguments, then those of its items.
--       Scripts that grant fencing tokens have one more at the end (lib/fencing.lua)
--
-- A sharing script defines read_shared(keys, argv, now, first, last), whose items have their keys
-- in KEYS from `first` to `last`; decide(shared, now, ...) with an item's own keys and arguments;
-- and write(shared, now). A failure before the first write leaves Redis unchanged: the item is
-- answered {-1, message}, and the others are still decided. If `write` fails, all items that it
-- covers are answered with its failure.
local replies, key, argument = {}, 0, 0

-- Writes the changes of the items from reply `first` on. A failure replaces their replies.
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
      fine, reply = pcall(read_shared, keys, argv, now, key + 1, last)
      shared = fine and reply or nil
    end
    if fine then
      fine, reply = pcall(decide, shared, now, item(key, argument))
    end
    replies[#replies + 1] = fine and reply or failure(reply)
    key, argument = key + ITEM_KEYS, argument + ITEM_ARGV
    if shared and (not fine or shared.stale) then
      -- The shared state may be outdated: write it, and read it again for the next item.
      finish(shared, first)
      shared = nil
    end
  end
  if shared then
    finish(shared, first)
  end
end
replies[#replies + 1] = now
if expired_leases > 0 then
  replies[#replies + 1] = expired_leases
end
return replies
