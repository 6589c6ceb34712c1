-- Tests a write, reads the clock, and returns the lead of tokens over it.
--
-- keys[1] probe string: "lead last process": the lead of tokens, the highest time of a token so far,
--         and the primary's run_id
-- argv[1] lead lead that the server knows of, µs, 0..3600000000
--
-- Returns {0, now, lead µs}
--         {1, now, lead µs, why}: Redis refused the write
-- Writes probe, TTL: 30 days
-- Cost O(1)
local PROBE_WRITTEN, PROBE_REFUSED = 0, 1
local LEAD_MAX = 3600000000
local TTL = 30 * 86400 * 1000

-- Returns the primary's run_id, '-' if our Redis user may not call INFO.
local function process()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
end

local function decide(keys, argv, now)
  local probe_key, lead, this = keys[1], tonumber(argv[1]), process()
  local text = call('GET', probe_key)
  local before, last, name = string.match(text or '', '^(%d+) (%d+) (%S+)$')
  if before then
    -- Of another primary only the time counts. A clock that was set back counts as another.
    lead = math.max(lead, name == this and tonumber(before) or 0, tonumber(last) - now)
  end
  lead = math.min(lead, LEAD_MAX)
  local record = format('%.0f %.0f %s', lead, now + lead, this)
  local written = redis.pcall('PSETEX', probe_key, format('%.0f', TTL), record)
  if written.err then
    return { PROBE_REFUSED, now, lead, written.err }
  end
  return { PROBE_WRITTEN, now, lead }
end
