-- A pool as the plain scripts read and write it.
--
-- @include leases settings task
--
-- shared keys  settings, token, leases, events, queued, queue
-- shared argv  capacity, lease_ms, grace_ms, paused, max_attempts (defaults), retention_ms, history

-- Reads the pool, and the task records whose keys follow KEYS[first]. Returns nil if the pool has queued
-- tasks or waiters, or if a value has another type; otherwise the pool, and the texts of settings, token
-- and task records.
local function plain_pool_open(at, first, number, argument)
  local texts = call('MGET', KEYS[at + 1], KEYS[at + 2], unpack(KEYS, first + 1, first + number))
  local there = (texts[1] and 1 or 0) + (texts[2] and 1 or 0)
  if call('EXISTS', KEYS[at + 1], KEYS[at + 2], KEYS[at + 5], KEYS[at + 6]) > there then
    return nil
  end
  local pool = {
    token_key = KEYS[at + 2], leases = KEYS[at + 3], events = KEYS[at + 4],
    retention = ARGV[argument + 6] * 1000, history = tonumber(ARGV[argument + 7]),
  }
  local grace_ms
  pool.capacity, pool.lease_ms, grace_ms, pool.paused = settings_read(
    texts[1], tonumber(ARGV[argument + 1]), tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3]),
    tonumber(ARGV[argument + 4]), tonumber(ARGV[argument + 5])
  )
  pool.grace, pool.in_use = grace_ms * 1000, leases_count(pool.leases, now)
  return pool, texts
end

-- Decodes the record of a running lease whose task was not queued: token, grant, expire, slot end, and
-- the member of the lease; nil for any other record, or if the token is not the lease's. If `compares`
-- is 0, any token is accepted.
local function plain_pool_lease(record, member, compares, token)
  if not record or #record ~= TASK_HEAD_BYTES then
    return nil
  end
  local state, held, grant, expire, slot_end, forget = scan(TASK_FORM, record)
  local is_leased = state == TASK_LEASED or state == TASK_DISCLOSED
  if not is_leased or min(expire, forget) <= now or max(held, grant, expire, slot_end, forget) > TIME_MAX then
    return nil
  elseif compares == 1 and token ~= held then
    return nil
  end
  return held, grant, expire, slot_end, member .. '\31' .. sub(record, 2, 25) .. '\0\0\0\0'
end
