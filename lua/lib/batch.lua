-- Decides all items of the call in order. A failed item is answered {-1, message}; the other
-- items are still decided.
--
-- @include failure
local replies = {}
for item = 0, #KEYS / KEYS_PER_ITEM - 1 do
  local keys = { unpack(KEYS, item * KEYS_PER_ITEM + 1, (item + 1) * KEYS_PER_ITEM) }
  local argv = { unpack(ARGV, item * ARGV_PER_ITEM + 1, (item + 1) * ARGV_PER_ITEM) }
  local decided, reply = pcall(decide, keys, argv, now)
  if not decided then
    reply = failure(reply)
  end
  replies[item + 1] = reply
end
replies[#replies + 1] = now
if expired_leases > 0 then
  replies[#replies + 1] = expired_leases
end
return replies
