-- Stores the record of a lock from an export.
--
-- @include lock
--
-- keys[1] lock string: the lock's record.
-- argv[1] owner 1..256 bytes.
-- argv[2] token below 2^52.
-- argv[3] grant µs.
-- argv[4] expire µs.
-- argv[5] lease_ms 0..2592000000.
-- argv[6] released 0 or 1.
--
-- Returns {0}.
-- Writes lock, TTL: until 5 minutes after its end, and at least until its token lies in the past.
-- Cost O(1): 12 µs.
local function decide(keys, argv, now)
  local lock_key, owner, state = keys[1], argv[1], argv[6] == '1' and LOCK_RELEASED or LOCK_HELD
  local token, grant, expire, lease_ms = tonumber(argv[2]), tonumber(argv[3]), tonumber(argv[4]), tonumber(argv[5])
  local lock = { token = token, grant = grant, expire = expire, lease_ms = lease_ms, owner = owner }
  local forget = lock_kept_until(lock)
  if forget > now then
    lock_write(lock_key, state, lock, now, forget)
  end
  return { OK }
end
