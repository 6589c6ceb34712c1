-- Scans the keys of this node, for listings of names without an index.
--
-- Each Redis process orders its keys differently, so with a cursor of another process the scan starts again at 0.
--
-- keys[1] node none: selects the node, by its hash slot; never stored
-- argv[1] process whose order the cursor belongs to, 16 hexadecimal digits
-- argv[2] cursor of SCAN, 0 to begin
-- argv[3] count keys to visit, 1..1000
-- argv[4] pattern of the keys, for MATCH
--
-- Returns {0, process, cursor used, next cursor or 0, key …}: the matching keys, in no particular
--         order; a key can appear twice
-- Writes nothing
-- Cost O(count): 50 µs and 0.4 µs for each key visited
local SCAN_UNKNOWN = '0000000000000000'

-- Returns the start of the process's run_id; zeros if our Redis user may not call INFO.
local function process_id()
  local is_allowed, info = pcall(call, 'INFO', 'server')
  return is_allowed and sub(match(info, 'run_id:(%x+)') or SCAN_UNKNOWN, 1, 16) or SCAN_UNKNOWN
end

local function decide(keys, argv, _)
  -- The key only routes the call.
  local _, process, cursor, count, pattern = keys[1], argv[1], argv[2], argv[3], argv[4]
  local own = process_id()
  if process ~= own then
    cursor = '0'
  end
  local page = call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count)
  local reply = { OK, own, cursor, page[1] }
  for i, key in ipairs(page[2]) do
    reply[4 + i] = key
  end
  return reply
end
