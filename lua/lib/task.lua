-- Task record: state (a letter), token, grant, expire, slot_end, forget (u64 each, little-endian;
-- times in µs). States: L leased; l leased and disclosed (lib/grant.lua); D done, then outcome (a
-- digit) and result; E evicted, then the reason.
--
-- @include digits
--
-- A lease holds its slot until slot_end: expire plus the grace. A record counts as absent from
-- forget on.
local TASK_LEASED, TASK_DISCLOSED, TASK_DONE, TASK_EVICTED = 'L', 'l', 'D', 'E'
-- States of queued tasks only (lib/queued.lua).
local TASK_NEW, TASK_FAILED = 'N', 'F'
local TASK_UNREADABLE = 'CORRUPT record of the task; EvictTask deletes it'
local TASK_BYTES_MAX = 66560
local TASK_HEAD_BYTES, TASK_FORM = 41, '<c1I8I8I8I8I8'
local TASK_STATES = {
  [TASK_LEASED] = TASK_LEASED, [TASK_DISCLOSED] = TASK_LEASED, [TASK_DONE] = TASK_DONE, [TASK_EVICTED] = TASK_EVICTED,
}

-- Returns the task record; nil if there is none or it is forgotten. `lease` is the end of its
-- member in `leases`.
local function task_decode(record, now)
  if not record then
    return nil
  elseif #record < TASK_HEAD_BYTES or #record > TASK_BYTES_MAX then
    error(TASK_UNREADABLE, 0)
  end
  local state, token, grant, expire, slot_end, forget = scan(TASK_FORM, record)
  if not TASK_STATES[state] or max(token, grant, expire, slot_end, forget) > TIME_MAX then
    error(TASK_UNREADABLE, 0)
  elseif forget <= now then
    return nil
  end
  return {
    state = TASK_STATES[state], is_disclosed = state == TASK_DISCLOSED, attempt = 0,
    token = token, grant = grant, expire = expire, slot_end = slot_end,
    lease = '\31' .. sub(record, 2, 25) .. '\0\0\0\0',
  }
end

-- Encodes a task record; `rest` is the data of its state.
local function task_encode(state, task, forget, rest)
  return pack(TASK_FORM, state, task.token, task.grant, task.expire, task.slot_end, forget) .. rest
end

local function task_write(key, state, task, forget, now, rest)
  call('SET', key, task_encode(state, task, forget, rest), 'PX', digits(math.ceil((forget - now) / 1000)))
end
