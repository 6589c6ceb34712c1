-- Sets how many of a sku are on hand.
--
-- keys[1] stock hash: the sku's numbers
-- keys[2] holds zset: what is held for orders
-- keys[3] buyers hash: what each buyer has reserved and bought
-- argv[1] on_hand 0..2^53-1
--
-- Returns {0 set, on_hand, reserved, sold}
--         {2 below what is reserved, on_hand, reserved, sold}
--         {3 out of range, on_hand, reserved, sold}
--         {9}: lapsed holds remain; decide again
-- Writes stock, permanent; holds, buyers (lapsed holds go)
-- Cost O(log holds): 20 µs; a call of the script reclaims at most 250 lapsed holds: 1.5 ms

local function decide(keys, argv, now)
  local kept = { stock = keys[1], holds = keys[2], buyers = keys[3] }
  local on_hand = tonumber(argv[1])

  local stock = read_stock(kept, now)
  stock = stock or { on_hand = 0, reserved = 0, sold = 0, lapsed = 0, buyers = {} }
  return restock(kept, stock, on_hand)
end
