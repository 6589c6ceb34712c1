-- The plain scripts of locks: locks without waiters, and one decision on each lock.
--
-- @include lock plain

-- Writes a lock whose text was `text`. Returns false, and writes nothing, if the key has a value of
-- another type, which MGET reports as absent.
local function plain_lock_write(key, text, state, lock)
  return call('SET', key, lock_text(state, lock), 'PX', lock_ttl(lock, now), text and 'XX' or 'NX')
end

-- Decides the items of a row, whose locks follow KEYS[first] and whose queues follow KEYS[queues].
-- `decide_one(key, text, owner, value)` returns the reply; nil, and writes nothing, if the decision is
-- not plain.
local function plain_lock_row(first, queues, number, items, declined, decide_one)
  local texts = call('MGET', unpack(KEYS, first + 1, first + number))
  local has_queues = call('EXISTS', unpack(KEYS, queues + 1, queues + number)) > 0
  local decided, at = {}, 5
  for i = 1, number do
    local key, owner, value, times = KEYS[first + i], nil, nil, nil
    owner, value, times, at = scan('<sI8I4', items, at)
    local is_plain = times == 1 and not decided[key] and not (has_queues and call('EXISTS', KEYS[queues + i]) == 1)
    decided[key] = true
    plain_reply(is_plain and decide_one(key, texts[i], owner, value) or declined, times)
  end
end
