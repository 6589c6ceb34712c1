-- A key's ban: ends u64, forget u64 (end of its strikes), strikes u32, reason and actor (each
-- ends with 0). Times are in µs.
local STRIKES_MAX = 4294967295

-- Returns the ban; nil if there is none or it is forgotten.
local function read_ban(key, now)
  local text = get(key)
  if not text then
    return nil
  end
  local read, ends, forget, strikes, reason, actor = pcall(scan, '<I8I8I4ss', text)
  if not read or max(ends, forget) > TIME_MAX then
    error('CORRUPT ban of the key; Unban repairs it', 0)
  end
  if forget <= now then
    return nil
  end
  return { ends = ends, forget = forget, strikes = strikes, reason = reason, actor = actor }
end

local function write_ban(key, ban, now)
  local text = pack('<I8I8I4ss', ban.ends, ban.forget, ban.strikes, ban.reason, ban.actor)
  set(key, text, ban.forget - now)
end
