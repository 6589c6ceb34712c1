-- Reads a sku's stock.
--
-- keys[1] stock hash: the sku's numbers.
-- keys[2] holds zset: holds of orders by end.
-- keys[3] buyers hash: quantity that each buyer has reserved and bought.
--
-- Returns {0, on_hand, reserved, sold}.
--         {8}: no stock of the sku was ever set.
--         {9}: lapsed holds remain; decide again.
-- Writes stock, permanent; holds, buyers (removes lapsed holds).
-- Cost O(log holds): 20 µs. A script call removes at most 250 lapsed holds: 1.5 ms.

local function decide(keys, _, now)
  local kept = { stock = keys[1], holds = keys[2], buyers = keys[3] }

  local stock = read_stock(kept, now)
  if not stock then
    return { NO_STOCK }
  end
  reclaim(kept, stock)
  if stock.remain then
    return { AGAIN }
  end
  return { 0, stock.on_hand, stock.reserved, stock.sold }
end
