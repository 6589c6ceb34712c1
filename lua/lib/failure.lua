-- The reply for an item that failed: {-1, message}.
--
-- Redis checks the permissions of its user for each command, so it can deny one after the first
-- write of an item; the message then begins with DENIED. Nothing was written if the user may run
-- all commands with which scripts write, or none of them, since scripts read before they write.
-- Returns whether the user may run some of these commands, but not all.
local function failure_may_write_partly()
  if not redis.acl_check_cmd then
    return true -- unknown before Redis 7
  end
  local writes = {
    'DEL', 'HDEL', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'PSETEX', 'RPUSH', 'SADD', 'SET', 'SETRANGE', 'SREM', 'ZADD',
    'ZREM', 'ZREMRANGEBYRANK', 'ZREMRANGEBYSCORE',
  }
  local allowed = 0
  for i = 1, #writes do
    allowed = allowed + (redis.acl_check_cmd(writes[i], KEYS[1], 1, 1, 1) and 1 or 0)
  end
  return allowed > 0 and allowed < #writes
end

local function failure(raised)
  -- redis.call raises a table since Redis 7, a string before.
  local message = type(raised) == 'table' and raised.err or tostring(raised)
  local denied = string.find(message, "can't run this command", 1, true) or string.find(message, 'NOPERM', 1, true)
  if denied and failure_may_write_partly() then
    message = 'DENIED ' .. message
  end
  return { -1, message }
end
