-- Reads the strings of a pool: settings, token record, task records.

-- Returns the stored strings of keys, false for absent ones. Fails if one has another type.
local function strings_read(...)
  local texts, there = call('MGET', ...), 0
  for i = 1, #texts do
    there = there + (texts[i] and 1 or 0)
  end
  -- MGET reports a value of another type as absent; EXISTS does not.
  if there < #texts and call('EXISTS', ...) > there then
    error('CORRUPT value of a wrong type; ConfigurePool with reset or EvictTask repairs it', 0)
  end
  return texts
end
