-- Stores an entry of a sku from an export.
--
-- @include order restock stock
--
-- keys[1] stock hash: the sku's numbers.
-- keys[2] holds zset: holds of orders by end.
-- keys[3] buyers hash: quantity that each buyer has reserved and bought.
-- keys[4] order string: the record of an order.
-- keys[5] replay string: the reply to a request.
-- argv[1] what s for the numbers, h a hold, b a buyer, o the order, r the reply.
-- argv[2] name the order of a hold, empty for others.
-- argv[3] state of an order: H, C or X.
-- argv[4] buyer of a hold, a buyer or an order; may be empty.
-- argv[5] quantity of a hold, a buyer or an order.
-- argv[6] grant of an order, µs.
-- argv[7] expire of a hold or an order, µs.
-- argv[8] limit of an order, 0 for none.
-- argv[9] forget of an order or a reply, µs.
-- argv[10] on_hand of the numbers or a reply.
-- argv[11] reserved of the numbers or a reply.
-- argv[12] sold of the numbers or a reply.
--
-- Returns {0}.
-- Writes stock, holds and buyers, permanent; order and replay, TTL: until forget.
-- Cost O(log holds): 20 µs.
local function decide(keys, argv, now)
  local sku, order_key, replay_key = { stock = keys[1], holds = keys[2], buyers = keys[3] }, keys[4], keys[5]
  local what, name, forget = argv[1], argv[2], tonumber(argv[9])
  local record = {
    state = argv[3], buyer = argv[4], quantity = tonumber(argv[5]),
    grant = tonumber(argv[6]), expire = tonumber(argv[7]), limit = tonumber(argv[8]),
  }
  local stock = { on_hand = tonumber(argv[10]), reserved = tonumber(argv[11]), sold = tonumber(argv[12]) }
  if (what == 'o' or what == 'r') and forget <= now then
    return { OK }
  elseif what == 'h' then
    call('ZADD', sku.holds, format('%.0f', record.expire), order_hold(name, record))
  elseif what == 'b' then
    order_write_buyer(sku, record.buyer, record.quantity)
  elseif what == 'o' then
    order_write(order_key, record.state, record, forget, now)
  elseif what == 'r' then
    restock_write_replay(replay_key, stock, forget, now)
  else
    stock_write(sku, stock)
  end
  return { OK }
end
