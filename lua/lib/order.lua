-- Orders, for the scripts that reserve, confirm and cancel. A record is text:
-- "state quantity grant expire forget limit buyer", state H (held), C (confirmed) or
-- X (cancelled), limit 0 for none. An order is held only while its hold is listed. A removed
-- hold has lapsed, even if the clock is set back later.
--
-- @include stock
local ORDER_HELD, ORDER_CONFIRMED, ORDER_CANCELLED = 'H', 'C', 'X'
local ORDER_RETENTION = 24 * 3600 * 1000000
local ORDER_BYTES_MAX = 512
local ORDER_UNREADABLE = 'CORRUPT record of the order; lua/README.md describes the repair'

-- Returns the record; nil if there is none or it is forgotten.
local function order_read(key, now)
  local text = stock_fetch('GET', key)
  if not text then
    return nil
  end
  local form = '^([HCX]) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$'
  local state, quantity, grant, expire, forget, limit, buyer = match(text, form)
  quantity, grant, expire = tonumber(quantity), tonumber(grant), tonumber(expire)
  forget, limit = tonumber(forget), tonumber(limit)
  if not state or quantity < 1 or quantity > STOCK_RESERVE_MAX or limit > STOCK_QUANTITY_MAX then
    error(ORDER_UNREADABLE, 0)
  elseif #text > ORDER_BYTES_MAX or math.max(grant, expire, forget) > TIME_MAX then
    error(ORDER_UNREADABLE, 0)
  elseif forget <= now then
    return nil
  end
  return {
    state = state, quantity = quantity, grant = grant, expire = expire, forget = forget, limit = limit, buyer = buyer,
  }
end

local function order_write(key, state, record, forget, now)
  local text = format(
    '%s %.0f %.0f %.0f %.0f %.0f %s',
    state, record.quantity, record.grant, record.expire, forget, record.limit, record.buyer
  )
  call('SET', key, text, 'PX', format('%.0f', ceil((forget - now) / 1000)))
end

local function order_hold(order, record)
  return format('%s\31%.0f\31%s\31%.0f', order, record.quantity, record.buyer, record.expire)
end

-- Returns whether the order's hold is listed and has not ended.
local function order_is_held(keys, stock, order, record, now)
  if not record or record.state ~= ORDER_HELD or record.expire <= now then
    return false
  end
  local held = stock_fetch('ZSCORE', keys.holds, order_hold(order, record)) ~= false
  if held and record.quantity > stock.reserved then
    stock_corrupt()
  end
  return held
end

-- Returns the quantity that a buyer has reserved and bought, without lapsed holds; 0 without a buyer.
local function order_buyer_count(keys, stock, buyer)
  if buyer == '' then
    return 0
  end
  local count = stock.buyers[buyer] or stock_fetch('HGET', keys.buyers, buyer)
  return type(count) == 'number' and count or count and stock_number(count, STOCK_QUANTITY_MAX) or 0
end

local function order_write_buyer(keys, buyer, count)
  if buyer ~= '' and count > 0 then
    call('HSET', keys.buyers, buyer, format('%.0f', count))
  elseif buyer ~= '' then
    call('HDEL', keys.buyers, buyer)
  end
end
