-- Sets the quantity on hand, for the scripts that set it and add to it.
local CHANGED, REPLAYED, BELOW_RESERVED, OUT_OF_RANGE = 0, 1, 2, 3

local function restock(keys, stock, on_hand)
  reclaim(keys, stock)
  if stock.remain then
    return { AGAIN }
  elseif on_hand < stock.reserved then
    return { BELOW_RESERVED, stock.on_hand, stock.reserved, stock.sold }
  elseif on_hand > QUANTITY_MAX - stock.sold then
    return { OUT_OF_RANGE, stock.on_hand, stock.reserved, stock.sold }
  end
  stock.on_hand = on_hand
  write_stock(keys, stock)
  return { CHANGED, stock.on_hand, stock.reserved, stock.sold }
end
