-- Reserves quantities for new orders: the plain form of stock/reserve.lua, for orders without a
-- record and skus without lapsed holds.
--
-- @include digits order plain plain_write stock
--
-- keys[1] stock hash: the sku's numbers.
-- keys[2] holds zset: holds of orders by end.
-- keys[3] buyers hash: quantity that each buyer has reserved and bought.
-- keys[4] order_key string: the order's record.
-- argv[1] request order, buyer (may be empty), each NUL-terminated; quantity u32; hold u64, µs; limit u64, 0 for none.
-- Shared keys[1..3]
-- Plain 5
--
-- Returns {0 reserved, on_hand, reserved, sold, expire}.
--         {3 short, on_hand, reserved, sold, µs until the next hold ends, 0 if no end helps}.
--         {4 buyer limit, on_hand, reserved, sold, quantity that the buyer has}.
--         {255, 0, 0, 0, 0}: declined.
-- Writes stock, holds, buyers, permanent; order, TTL: hold and 24 h.
-- Cost O(log holds): 12 µs.
local RESERVED, SHORT, BUYER_LIMIT = 0, 3, 4
local ITEM, NUMBERS = '<ssI4I8I8I4', '<I8I8I8I8I8' -- a request, and how many equal requests it stands for

-- Returns the stock with its keys; nil if the sku is not plain.
local function open(at, first, number)
  local keys = { stock = KEYS[at + 1], holds = KEYS[at + 2], buyers = KEYS[at + 3] }
  local stock = stock_read(keys)
  if not stock or call('ZRANGEBYSCORE', keys.holds, '-inf', digits(now), 'LIMIT', 0, 1)[1] then
    return nil
  end
  stock.keys, stock.has_records = keys, call('EXISTS', unpack(KEYS, first + 1, first + number)) > 0
  stock.replies, stock.listed, stock.orders, stock.first_end = {}, {}, {}, TIME_MAX
  return stock
end

local function write(stock)
  local keys, counts = stock.keys, {}
  call('HSET', keys.stock, 'reserved', digits(stock.reserved))
  call('ZADD', keys.holds, unpack(stock.listed))
  for buyer, count in pairs(stock.buyers) do
    counts[#counts + 1], counts[#counts + 2] = buyer, digits(count)
  end
  if #counts > 0 then
    call('HSET', keys.buyers, unpack(counts))
  end
  for order_key, record in pairs(stock.orders) do
    order_write(order_key, ORDER_HELD, record, record.expire + ORDER_RETENTION, now)
  end
end

-- Writes the reservations, and appends the replies.
local function flush(stock)
  if #stock.listed > 0 then
    plain_write(stock, #stock.replies, write)
  end
  for i = 1, #stock.replies do
    plain_reply(stock.replies[i], 1)
  end
end

-- Returns the µs until the next hold ends, 0 if waiting for holds to end cannot help.
local function wait(stock, quantity)
  local listed = call('ZRANGE', stock.keys.holds, 0, 0, 'WITHSCORES')[2]
  local first = min(tonumber(listed) or TIME_MAX, stock.first_end)
  return stock.on_hand >= quantity and first < TIME_MAX and first - now or 0
end

-- Reserves the quantity. Returns the end of the hold.
local function reserve(stock, order_key, order, record, count)
  record.grant, record.expire = now, now + record.hold
  stock.first_end = min(stock.first_end, record.expire)
  stock.reserved, stock.orders[order_key] = stock.reserved + record.quantity, record
  stock.listed[#stock.listed + 1], stock.listed[#stock.listed + 2] = digits(record.expire), order_hold(order, record)
  if record.buyer ~= '' then
    stock.buyers[record.buyer] = count + record.quantity
  end
  return record.expire
end

local function decide_one(stock, order_key, order, record)
  local count, quantity = order_buyer_count(stock.keys, stock, record.buyer), record.quantity
  local status, number
  if record.limit > 0 and count > record.limit - quantity then
    status, number = BUYER_LIMIT, count
  elseif stock.on_hand - stock.reserved < quantity then
    status, number = SHORT, wait(stock, quantity)
  else
    status, number = RESERVED, reserve(stock, order_key, order, record, count)
  end
  stock.replies[#stock.replies + 1] = pack(NUMBERS, status, stock.on_hand, stock.reserved, stock.sold, number)
end

local function decide(at, first, _, argument, number, items)
  local stock, from = open(at, first, number), 5
  for i = 1, number do
    local order_key, record, order, times = KEYS[first + i], {}, nil, nil
    order, record.buyer, record.quantity, record.hold, record.limit, times, from = scan(ITEM, items, from)
    local has_record = stock and (stock.orders[order_key] or stock.has_records and call('EXISTS', order_key) == 1)
    if stock and (has_record or times > 1) then
      stock = flush(stock) -- requests for one sku are decided in order: once one is declined, so are the rest
    end
    if stock then
      decide_one(stock, order_key, order, record)
    else
      plain_reply(pack(NUMBERS, PLAIN_DECLINED, 0, 0, 0, 0), times)
    end
  end
  if stock then
    flush(stock)
  end
end
