-- The reply of an item that failed: {-1, message}.
--
-- Redis checks the rights of its user at each command, so it can deny one after the first write of
-- an item. The message of such an item begins with DENIED, unless the user may run none of the
-- commands by which scripts write: then nothing was written.
local WRITES = {
  'DEL', 'HDEL', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'PSETEX', 'RPUSH', 'SADD', 'SET', 'SREM', 'ZADD', 'ZREM',
  'ZREMRANGEBYRANK', 'ZREMRANGEBYSCORE',
}

local function may_write()
  if not redis.acl_check_cmd then
    return true -- unknown before Redis 7
  end
  for i = 1, #WRITES do
    if redis.acl_check_cmd(WRITES[i], KEYS[1], 1, 1, 1) then
      return true
    end
  end
  return false
end

local function failure(raised)
  -- redis.call raises a table since Redis 7, a string before.
  local message = type(raised) == 'table' and raised.err or tostring(raised)
  local denied = string.find(message, "can't run this command", 1, true) or string.find(message, 'NOPERM', 1, true)
  if denied and may_write() then
    message = 'DENIED ' .. message
  end
  return { -1, message }
end
