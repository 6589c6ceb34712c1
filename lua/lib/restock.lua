-- Sets the quantity on hand, for the scripts that set it and add to it. A reply kept for repeats
-- is text: "forget on_hand reserved sold".
--
-- @include stock
local RESTOCK_CHANGED, RESTOCK_REPLAYED, RESTOCK_BELOW_RESERVED, RESTOCK_OUT_OF_RANGE = 0, 1, 2, 3

local function restock(keys, stock, on_hand)
  stock_reclaim(keys, stock)
  if stock.remain then
    return { STOCK_AGAIN }
  elseif on_hand < stock.reserved then
    return { RESTOCK_BELOW_RESERVED, stock.on_hand, stock.reserved, stock.sold }
  elseif on_hand > STOCK_QUANTITY_MAX - stock.sold then
    return { RESTOCK_OUT_OF_RANGE, stock.on_hand, stock.reserved, stock.sold }
  end
  stock.on_hand = on_hand
  stock_write(keys, stock)
  return { RESTOCK_CHANGED, stock.on_hand, stock.reserved, stock.sold }
end

-- Returns a kept reply, and the time until which it is kept. An unreadable one counts as absent.
local function restock_read_replay(key, now)
  local read, text = pcall(call, 'GET', key)
  local forget, on_hand, reserved, sold = match(read and text or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if forget and tonumber(forget) > now then
    on_hand, reserved, sold = tonumber(on_hand), tonumber(reserved), tonumber(sold)
    if on_hand <= STOCK_QUANTITY_MAX and reserved <= on_hand and sold <= STOCK_QUANTITY_MAX then
      return { RESTOCK_REPLAYED, on_hand, reserved, sold }, tonumber(forget)
    end
  end
end

local function restock_write_replay(key, stock, forget, now)
  local text = format('%.0f %.0f %.0f %.0f', forget, stock.on_hand, stock.reserved, stock.sold)
  call('SET', key, text, 'PX', format('%.0f', ceil((forget - now) / 1000)))
end
