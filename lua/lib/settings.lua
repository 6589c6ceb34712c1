-- Run-time settings of a pool: "capacity,lease_ms,grace_ms,paused,max_attempts", empty where not
-- overridden.
local SETTINGS_UNREADABLE = 'CORRUPT settings of the pool; ConfigurePool with reset repairs it'

local function settings_decode(text)
  local c, l, g, p, m = match(text, '^(%d*),(%d*),(%d*),(%d*),?(%d*)$')
  return c, l, g, p, m
end

-- Returns the settings in force (capacity, lease, grace, paused, attempts), and the bits of those
-- that are overridden: 1, 2, 4, 8, 16.
local function settings_read(text, capacity, lease_ms, grace_ms, paused, max_attempts)
  if not text then
    return capacity, lease_ms, grace_ms, paused, max_attempts, 0
  end
  local c, l, g, p, m = settings_decode(text)
  if not c then
    error(SETTINGS_UNREADABLE, 0)
  end
  local set = (c ~= '' and 1 or 0) + (l ~= '' and 2 or 0) + (g ~= '' and 4 or 0)
  set = set + (p ~= '' and 8 or 0) + (m ~= '' and 16 or 0)
  c, l, g, p, m = tonumber(c), tonumber(l), tonumber(g), tonumber(p), tonumber(m)
  local in_range = (c or 0) <= 1000000 and (l or 100) >= 100 and (l or 0) <= 86400000 and (g or 0) <= 2592000000
  if not in_range or (p or 0) > 1 or (m or 1) < 1 or (m or 1) > 1000 then
    error(SETTINGS_UNREADABLE, 0)
  end
  return c or capacity, l or lease_ms, g or grace_ms, p or paused, m or max_attempts, set
end
