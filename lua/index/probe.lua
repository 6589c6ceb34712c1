-- Tests a write, reads the clock, and returns the lead of tokens over it. Reads the marker of the store
-- (lib/store.lua), and writes it if it is absent or an operator has settled a loss.
--
-- keys[1] probe string: "lead last process": the lead of tokens, the highest time of a token so far,
--         and the primary's run_id
-- keys[2] marker string: "id state time".
-- argv[1] lead the lead that the server knows, µs, 0..3600000000
-- argv[2] known id of the marker that the server has seen, empty for none.
-- argv[3] first marker to write if there is none and the server has seen none.
-- argv[4] loss state after a loss: lost or continued.
-- argv[5] settle accept to accept a loss, import to write `first`, else empty.
--
-- Returns {0, now, lead µs, marker}
--         {1, now, lead µs, marker, why}: Redis refused the write. The marker is empty if it could not
--         be written
-- Writes probe, TTL: 30 days; marker, permanent.
-- Cost O(1)
local PROBE_WRITTEN, PROBE_REFUSED = 0, 1
local LEAD_MAX = 3600000000
local TTL = 30 * 86400 * 1000

-- Returns the primary's run_id, '-' if our Redis user may not call INFO.
local function process()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
end

-- Returns the marker that must be stored.
local function marked(text, known, first, loss, settle, now)
  local id, state, time = match(text or '', '^(%x+) (%l+) (%d+)$')
  if settle == 'import' then
    return first
  elseif id and settle == 'accept' and state ~= 'whole' then
    return id .. ' ' .. (state == 'lost' and 'accepted' or state == 'continued' and 'whole' or state) .. ' ' .. time
  elseif id and (known == '' or known == id or state ~= 'whole') then
    return text
  elseif known == '' then
    return first
  end
  -- The marker is gone, or another server has since begun a new one.
  return (id or known) .. ' ' .. loss .. ' ' .. format('%.0f', now)
end

local function decide(keys, argv, now)
  local probe_key, marker_key, lead, this = keys[1], keys[2], tonumber(argv[1]), process()
  local known, first, loss, settle = argv[2], argv[3], argv[4], argv[5]
  local text = call('GET', probe_key)
  local before, last, name = string.match(text or '', '^(%d+) (%d+) (%S+)$')
  if before then
    -- If another primary stored it, only the time is used. A clock that was set back counts as
    -- another primary.
    lead = math.max(lead, name == this and tonumber(before) or 0, tonumber(last) - now)
  end
  lead = math.min(lead, LEAD_MAX)
  local record = format('%.0f %.0f %s', lead, now + lead, this)
  local written = redis.pcall('PSETEX', probe_key, format('%.0f', TTL), record)
  local is = call('GET', marker_key)
  local marker = marked(is, known, first, loss, settle, now)
  if marker ~= is and redis.pcall('SET', marker_key, marker).err then
    marker = ''
  end
  if written.err then
    return { PROBE_REFUSED, now, lead, marker, written.err }
  end
  return { PROBE_WRITTEN, now, lead, marker }
end
