-- Format of a lock. All times are in microseconds.
--
-- lock  "state token grant expire lease_ms owner", state H (held) or R (released at expire).
--       Kept for 5 minutes after its end, to answer repeats of the release, and so that tokens grow
--       even if the clock is set back. lease_ms begins with 0 if the lease is disclosed: a renewal,
--       or a call other than the one to which it was granted, was answered with it
local LOCK_HELD, LOCK_RELEASED = 'H', 'R'
local LOCK_RETENTION = 300000000
local LOCK_BYTES_MAX = 512

-- Returns the lock of a text, without a state if there is none: it was never held.
local function lock_parse(text)
  if not text then
    return { token = 0, held = false, expire = 0 }
  end
  local state, token, grant, expire, lease_ms, owner = match(text, '^([HR]) (%d+) (%d+) (%d+) (%d+) (.+)$')
  local is_disclosed = lease_ms ~= nil and match(lease_ms, '^0%d') ~= nil
  token, grant, expire, lease_ms = tonumber(token), tonumber(grant), tonumber(expire), tonumber(lease_ms)
  if not state or #text > LOCK_BYTES_MAX or max(token, grant, expire) > TIME_MAX or lease_ms > 2592000000 then
    error('CORRUPT lock; DEL of its key, which ends in :lock, repairs it; the next token is then the time', 0)
  end
  local lock = { state = state, token = token, grant = grant, expire = expire, lease_ms = lease_ms, owner = owner }
  lock.is_disclosed = is_disclosed
  return lock
end

local function lock_read(key)
  return lock_parse(call('GET', key))
end

local function lock_is_held(lock, now)
  return lock.state == LOCK_HELD and now < lock.expire
end

local function lock_is_held_by(lock, owner, token, now)
  return lock_is_held(lock, now) and lock.owner == owner and (not token or token == lock.token)
end

-- Returns the time from which an export omits the record: after its retention, and when its token
-- lies in the past, so that later tokens are higher.
local function lock_kept_until(lock)
  return max(lock.expire + LOCK_RETENTION, lock.token + 1)
end

local function lock_text(state, lock)
  return format(
    '%s %.0f %.0f %.0f %s%.0f %s',
    state, lock.token, lock.grant, lock.expire, lock.is_disclosed and '0' or '', lock.lease_ms, lock.owner
  )
end

-- Returns the TTL of a lock's key.
local function lock_ttl(lock, now, forget)
  return format('%.0f', ceil(((forget or lock.expire + LOCK_RETENTION) - now) / 1000))
end

local function lock_write(key, state, lock, now, forget)
  call('SET', key, lock_text(state, lock), 'PX', lock_ttl(lock, now, forget))
end
