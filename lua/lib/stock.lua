-- Format of a sku's stock. All times are in microseconds.
--
-- stock   hash of on_hand, reserved and sold.
-- holds   zset by expire of "order\31quantity\31buyer\31expire": all that a lapsed hold gives
--         back, without the order's key.
-- buyers  hash: quantity that each buyer has reserved and bought.
--
-- `reserved` is the sum of the listed holds. Every script first removes lapsed holds, at most
-- RECLAIM_MAX. If more remain (stock.remain) it may still grant, but it answers AGAIN instead of
-- a refusal that they might prevent.
local call, format, match, ceil, min = redis.call, string.format, string.match, math.ceil, math.min

local QUANTITY_MAX, RESERVE_MAX, TIME_MAX = 9007199254740991, 1000000000, 4503599627370495
local NO_STOCK, AGAIN = 8, 9
-- Bounds the time of a script call, and the arguments of one HSET or HMGET.
local RECLAIM_MAX = 250
-- Lapsed holds that this script call, with all its items, may still remove.
local reclaims = RECLAIM_MAX
local UNREADABLE = 'CORRUPT stock of the sku; lua/README.md describes the repair'

local function corrupt()
  error(UNREADABLE, 0)
end

-- Calls a reading command; a value of another type is an unreadable stock.
local function fetch(...)
  local fine, value = pcall(call, ...)
  if fine then
    return value
  end
  local message = type(value) == 'table' and value.err or value
  error(string.find(message, 'WRONGTYPE', 1, true) and UNREADABLE or message, 0)
end

local function number(text, most)
  local value = text and (text == '0' or match(text, '^[1-9]%d*$')) and tonumber(text)
  return value and value <= most and value or corrupt()
end

-- Subtracts lapsed holds from `reserved` and from their buyers' counts. Writes nothing.
local function read_lapsed(keys, stock, now)
  local members = fetch('ZRANGEBYSCORE', keys.holds, '-inf', format('%.0f', now), 'LIMIT', 0, reclaims + 1)
  stock.lapsed, stock.remain = min(#members, reclaims), #members > reclaims
  local names, back = {}, {}
  for i = 1, stock.lapsed do
    local quantity, buyer = match(members[i], '^[^\31]+\31(%d+)\31([^\31]*)\31%d+$')
    quantity = number(quantity, RESERVE_MAX)
    stock.reserved = stock.reserved - quantity
    if buyer ~= '' and not back[buyer] then
      names[#names + 1] = buyer
    end
    back[buyer] = (back[buyer] or 0) + quantity
  end
  local counts = #names > 0 and fetch('HMGET', keys.buyers, unpack(names)) or {}
  for i, buyer in ipairs(names) do
    stock.buyers[buyer] = number(counts[i], QUANTITY_MAX) - back[buyer]
    if stock.buyers[buyer] < 0 then
      corrupt()
    end
  end
  if stock.reserved < 0 then
    corrupt()
  end
end

-- Returns the stock without lapsed holds, nil if it was never set. Writes nothing.
local function read_stock(keys, now)
  local on_hand, reserved, sold = unpack(fetch('HMGET', keys.stock, 'on_hand', 'reserved', 'sold'))
  if not (on_hand or reserved or sold) then
    return nil
  end
  local stock = { on_hand = number(on_hand, QUANTITY_MAX), buyers = {} }
  stock.reserved = number(reserved, stock.on_hand)
  stock.sold = number(sold, QUANTITY_MAX - stock.on_hand)
  read_lapsed(keys, stock, now)
  return stock
end

local function write_stock(keys, stock)
  local on_hand, reserved = format('%.0f', stock.on_hand), format('%.0f', stock.reserved)
  call('HSET', keys.stock, 'on_hand', on_hand, 'reserved', reserved, 'sold', format('%.0f', stock.sold))
end

-- Removes the lapsed holds that read_stock found.
local function reclaim(keys, stock)
  if stock.lapsed == 0 then
    return
  end
  reclaims = reclaims - stock.lapsed
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
  write_stock(keys, stock)
end
