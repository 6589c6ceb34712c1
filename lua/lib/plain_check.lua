-- Plain checks: one limit, no tiers, no request id, and a key without a ban or other usage.
--
-- @include plain
-- verdict, flags, retry_after ms, count, reset_after ms
local PLAIN_CHECK_REPLY = '<I8I8I8I8I8'

-- Sets a usage with a TTL in ms. Returns false, and writes nothing, if the key exists although its
-- text is absent: MGET reports a value of another type as absent.
local function plain_check_set(key, text, value, ttl)
  if text then
    return call('SET', key, value, 'PX', ttl)
  end
  return call('SET', key, value, 'PX', ttl, 'NX')
end

-- Returns false if the key exists although its text is absent: its value has another type.
local function plain_check_is_absent(key, text)
  return text or call('EXISTS', key) == 0
end

local plain_check_last, plain_check_is_plain

-- Decides the items of a row, whose usages follow KEYS[first] and whose bans follow KEYS[bans].
-- `check(key, text, cost, times)` returns false before it has written anything if the item is not
-- plain. Otherwise it writes, and then appends the replies.
local function plain_check_row(first, bans, number, items, check)
  local at = 5
  local texts = call('MGET', unpack(KEYS, first + 1, first + number))
  local has_bans = call('EXISTS', unpack(KEYS, bans + 1, bans + number)) > 0
  for i = 1, number do
    local key, text, cost, times = KEYS[first + i], texts[i], nil, nil
    cost, times, at = scan('<I4I4', items, at)
    if key == plain_check_last then
      text = call('GET', key) -- an earlier item may have changed it
    else
      plain_check_last = key
      plain_check_is_plain = not has_bans or call('EXISTS', KEYS[bans + i]) == 0
    end
    -- Checks of one key are decided in order: once one is not plain, the ones after it are not either.
    plain_check_is_plain = plain_check_is_plain and check(key, text, cost, times)
    if not plain_check_is_plain then
      plain_reply(pack(PLAIN_CHECK_REPLY, PLAIN_DECLINED, 0, 0, 0, 0), times)
    end
  end
end
