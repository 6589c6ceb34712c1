-- Format of a sku's stock. All times are in microseconds.
--
-- stock   hash of on_hand, reserved and sold.
-- holds   zset by expire of "order\31quantity\31buyer\31expire": all that a lapsed hold
--         releases, without the order's key.
-- buyers  hash: quantity that each buyer has reserved and bought.
--
-- `reserved` is the sum of the listed holds. Every script first removes lapsed holds, at most
-- STOCK_RECLAIM_MAX. If more remain (stock.remain) it may still grant, but it answers STOCK_AGAIN instead of
-- a refusal that they might prevent.
local STOCK_QUANTITY_MAX, STOCK_RESERVE_MAX = 9007199254740991, 1000000000
local STOCK_UNKNOWN, STOCK_AGAIN = 8, 9
-- Limits the time of a script call, and the number of arguments of one HSET or HMGET.
local STOCK_RECLAIM_MAX = 250
-- Lapsed holds that this script call, with all its items, may still remove.
local stock_reclaims = STOCK_RECLAIM_MAX
local STOCK_UNREADABLE = 'CORRUPT stock of the sku; lua/README.md describes the repair'

local function stock_corrupt()
  error(STOCK_UNREADABLE, 0)
end

-- Calls a command that reads; a value of another type makes the stock unreadable.
local function stock_fetch(...)
  local fine, value = pcall(call, ...)
  if fine then
    return value
  end
  local message = type(value) == 'table' and value.err or value
  error(string.find(message, 'WRONGTYPE', 1, true) and STOCK_UNREADABLE or message, 0)
end

local function stock_number(text, most)
  local value = text and (text == '0' or match(text, '^[1-9]%d*$')) and tonumber(text)
  return value and value <= most and value or stock_corrupt()
end

-- Subtracts lapsed holds from `reserved` and from their buyers' counts. Writes nothing.
local function stock_read_lapsed(keys, stock, now)
  local most = stock_reclaims + 1
  local members = stock_fetch('ZRANGEBYSCORE', keys.holds, '-inf', format('%.0f', now), 'LIMIT', 0, most)
  stock.lapsed, stock.remain = min(#members, stock_reclaims), #members > stock_reclaims
  local names, back = {}, {}
  for i = 1, stock.lapsed do
    local quantity, buyer = match(members[i], '^[^\31]+\31(%d+)\31([^\31]*)\31%d+$')
    quantity = stock_number(quantity, STOCK_RESERVE_MAX)
    stock.reserved = stock.reserved - quantity
    if buyer ~= '' and not back[buyer] then
      names[#names + 1] = buyer
    end
    back[buyer] = (back[buyer] or 0) + quantity
  end
  local counts = #names > 0 and stock_fetch('HMGET', keys.buyers, unpack(names)) or {}
  for i, buyer in ipairs(names) do
    stock.buyers[buyer] = stock_number(counts[i], STOCK_QUANTITY_MAX) - back[buyer]
    if stock.buyers[buyer] < 0 then
      stock_corrupt()
    end
  end
  if stock.reserved < 0 then
    stock_corrupt()
  end
end

-- Returns the stock without lapsed holds; nil if it was never set. Without `now`, lapsed holds
-- count. Writes nothing.
local function stock_read(keys, now)
  local on_hand, reserved, sold = unpack(stock_fetch('HMGET', keys.stock, 'on_hand', 'reserved', 'sold'))
  if not (on_hand or reserved or sold) then
    return nil
  end
  local stock = { on_hand = stock_number(on_hand, STOCK_QUANTITY_MAX), buyers = {} }
  stock.reserved = stock_number(reserved, stock.on_hand)
  stock.sold = stock_number(sold, STOCK_QUANTITY_MAX - stock.on_hand)
  if now then
    stock_read_lapsed(keys, stock, now)
  end
  return stock
end

local function stock_write(keys, stock)
  local on_hand, reserved = format('%.0f', stock.on_hand), format('%.0f', stock.reserved)
  call('HSET', keys.stock, 'on_hand', on_hand, 'reserved', reserved, 'sold', format('%.0f', stock.sold))
end

-- Removes the lapsed holds that read_stock found.
local function stock_reclaim(keys, stock)
  if stock.lapsed == 0 then
    return
  end
  stock_reclaims = stock_reclaims - stock.lapsed
  call('ZREMRANGEBYRANK', keys.holds, 0, stock.lapsed - 1)
  local left, none = {}, {}
  for buyer, count in pairs(stock.buyers) do
    if count > 0 then
      left[#left + 1], left[#left + 2] = buyer, format('%.0f', count)
    else
      none[#none + 1] = buyer
    end
  end
  if #left > 0 then
    call('HSET', keys.buyers, unpack(left))
  end
  if #none > 0 then
    call('HDEL', keys.buyers, unpack(none))
  end
  stock_write(keys, stock)
end
