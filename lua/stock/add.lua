-- Adds to a sku's quantity on hand, or subtracts from it.
--
-- @include restock stock
--
-- keys[1] stock hash: the sku's numbers.
-- keys[2] holds zset: holds of orders by end.
-- keys[3] buyers hash: quantity that each buyer has reserved and bought.
-- keys[4] replay string: "forget on_hand reserved sold", the reply kept for repeats.
-- argv[1] delta -(2^53-1)..2^53-1.
-- argv[2] keep TTL of the reply for repeats, µs, 0 for none.
--
-- Returns {0 added, on_hand, reserved, sold}.
--         {1 replayed, on_hand, reserved, sold}.
--         {2 below the reserved quantity, on_hand, reserved, sold}.
--         {3 out of range, on_hand, reserved, sold}.
--         {8}: no stock of the sku was ever set.
--         {9}: lapsed holds remain; decide again.
-- Writes stock, permanent; replay, TTL: keep; holds, buyers (removes lapsed holds).
-- Cost O(log holds): 20 µs. A script call removes at most 250 lapsed holds: 1.5 ms.

local function decide(keys, argv, now)
  local sku, replay_key = { stock = keys[1], holds = keys[2], buyers = keys[3] }, keys[4]
  local delta, keep = tonumber(argv[1]), tonumber(argv[2])

  local stock = stock_read(sku, now)
  if not stock then
    return { STOCK_UNKNOWN }
  end
  local replay = keep > 0 and restock_read_replay(replay_key, now)
  if replay then
    return replay
  end
  local answer = restock(sku, stock, stock.on_hand + delta)
  if keep > 0 and answer[1] == RESTOCK_CHANGED then
    restock_write_replay(replay_key, stock, now + keep, now)
  end
  return answer
end
