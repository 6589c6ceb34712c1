-- Reads a page of the stored entries of a sku, for an export.
--
-- @include order restock stock
--
-- keys[1] stock hash: the sku's numbers.
-- keys[2] holds zset: holds of orders by end.
-- keys[3] buyers hash: quantity that each buyer has reserved and bought.
-- keys[4] order string: the record of an order.
-- keys[5] replay string: the reply to a request.
-- argv[1] what s for the numbers, h holds, b buyers, o the order, r the reply.
-- argv[2] after position of the previous page, or empty: member of a hold, cursor of HSCAN.
-- argv[3] limit about this many entries a page, 1..250.
--
-- Returns {0, position of the page or empty if it is the last, entries …}. An entry is
--         '' letter, on_hand, reserved, sold.
--         'h' letter, order, quantity, buyer, expire.
--         'b' letter, buyer, count.
--         'o' letter, state, quantity, grant, expire, buyer, limit, forget.
--         'r' letter, on_hand, reserved, sold, forget.
-- Writes nothing.
-- Cost O(log holds + limit): 6 µs an entry.
local HOLD = '^([^\31]+)\31(%d+)\31([^\31]*)\31(%d+)$'

-- Appends the holds after a member, in the order of their ends.
local function read_holds(reply, holds_key, after, limit)
  local start = 0
  if after ~= '' then
    local _, _, _, ends = match(after, HOLD)
    -- If that hold has been removed, continue at the first hold with the same end.
    start = (call('ZRANK', holds_key, after) or call('ZCOUNT', holds_key, '-inf', '(' .. ends) - 1) + 1
  end
  local members = stock_fetch('ZRANGE', holds_key, start, start + limit)
  for i = 1, min(#members, limit) do
    local order, quantity, buyer, ends = match(members[i], HOLD)
    local at = #reply
    reply[at + 1], reply[at + 2] = 'h', order or stock_corrupt()
    reply[at + 3], reply[at + 4] = stock_number(quantity, STOCK_RESERVE_MAX), buyer
    reply[at + 5] = stock_number(ends, TIME_MAX)
  end
  reply[2] = #members > limit and members[limit] or ''
end

-- Appends a page of buyers, in no particular order. HSCAN returns a small hash as a whole.
local function read_buyers(reply, buyers_key, after, limit)
  local page = stock_fetch('HSCAN', buyers_key, after == '' and '0' or after, 'COUNT', limit)
  for i = 1, #page[2], 2 do
    local at = #reply
    reply[at + 1], reply[at + 2] = 'b', page[2][i]
    reply[at + 3] = stock_number(page[2][i + 1], STOCK_QUANTITY_MAX)
  end
  reply[2] = page[1] ~= '0' and page[1] or ''
end

local function decide(keys, argv, now)
  local sku, order_key, replay_key = { stock = keys[1], holds = keys[2], buyers = keys[3] }, keys[4], keys[5]
  local what, after, limit = argv[1], argv[2], tonumber(argv[3])
  local reply = { OK, '' }
  if what == 'h' then
    read_holds(reply, sku.holds, after, limit)
  elseif what == 'b' then
    read_buyers(reply, sku.buyers, after, limit)
  elseif what == 's' then
    local stock = stock_read(sku)
    if stock then
      return { OK, '', '', stock.on_hand, stock.reserved, stock.sold }
    end
  elseif what == 'o' then
    local of = order_read(order_key, now)
    if of then
      return { OK, '', 'o', of.state, of.quantity, of.grant, of.expire, of.buyer, of.limit, of.forget }
    end
  else
    local answer, forget = restock_read_replay(replay_key, now)
    if answer then
      return { OK, '', 'r', answer[2], answer[3], answer[4], forget }
    end
  end
  return reply
end
