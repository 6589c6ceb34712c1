-- Tries a write, reads the clock, and tells each server how far tokens run ahead of it.
--
-- keys[1] probe string: "ahead last process": what is returned, the highest time that a
--         token had by then, and the primary's run_id
-- argv[1] ahead µs that the server knows of, 0..3600000000
--
-- Returns {0, now, ahead µs}
--         {1, now, ahead µs, why}: the write was refused
-- Writes probe, TTL: 30 days
-- Cost O(1)
local AHEAD_MAX = 3600000000
local TTL = 30 * 86400 * 1000

-- The primary's name; '-' where our user may not ask.
local function process()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
end

local function decide(keys, argv, now)
  local probe_key, ahead, this = keys[1], tonumber(argv[1]), process()
  local text = call('GET', probe_key)
  local before, last, name = string.match(text or '', '^(%d+) (%d+) (%S+)$')
  if before then
    -- Of another primary only the time is known; a clock that was set back is like another.
    ahead = math.max(ahead, name == this and tonumber(before) or 0, tonumber(last) - now)
  end
  ahead = math.min(ahead, AHEAD_MAX)
  local record = format('%.0f %.0f %s', ahead, now + ahead, this)
  local written = redis.pcall('PSETEX', probe_key, format('%.0f', TTL), record)
  if written.err then
    return { 1, now, ahead, written.err }
  end
  return { 0, now, ahead }
end
