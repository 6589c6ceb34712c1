-- The listed leases, which are the pool's count: a zset by slot end of device\31task\31, token,
-- grant, expire (u64 each, little-endian), attempt (u32, 0 where the task was not queued).
--
-- @include task

-- Encodes the member of a task's lease in `leases`.
local function leases_encode(member, task)
  local lease = task.lease or '\31' .. pack('<I8I8I8I4', task.token, task.grant, task.expire, task.attempt)
  return member .. lease
end

-- Decodes a member: device and task, token, grant, expire, attempt; nil if it is malformed.
local function leases_decode(lease)
  local first = string.find(lease, '\31', 1, true)
  local second = first and string.find(lease, '\31', first + 1, true)
  if not second or first == 1 or second == first + 1 or #lease ~= second + 28 then
    return nil
  end
  local token, grant, expire, attempt = scan('<I8I8I8I4', lease, second + 1)
  if max(token, grant, expire) <= TIME_MAX then
    return sub(lease, 1, second - 1), token, grant, expire, attempt
  end
end

-- Decodes grant and expire of a member; nil if it is malformed. Creates no string, because a view
-- of a pool reads hundreds of members.
local function leases_times(lease)
  if #lease < 32 or string.byte(lease, -29) ~= 31 then
    return nil
  end
  local token, grant, expire = scan('<I8I8I8', lease, #lease - 27)
  if max(token, grant, expire) <= TIME_MAX then
    return grant, expire
  end
end

-- Counts leases by slot end: an expired lease that is still listed does not count.
local function leases_count(leases_key, now)
  return call('ZCOUNT', leases_key, format('(%.0f', now), '+inf')
end

-- Returns whether a lease is listed. Items of a run (lib/changes.lua) see changes that are not yet
-- written.
local function leases_is_listed(pool, lease)
  local changed = pool.changed and pool.changed[lease]
  if changed ~= nil then
    return changed ~= false
  end
  return call('ZSCORE', pool.leases, lease) ~= false
end

local function leases_holds_slot(pool, member, task, now)
  return task.state == TASK_LEASED and now < task.slot_end and leases_is_listed(pool, leases_encode(member, task))
end
