-- A key's ban: ends u64, forget u64 (end of its strikes), strikes u32, reason and actor (each
-- ends with 0). Times are in µs.
--
-- @include prefetch
local BAN_BYTES_MAX = 1024
local BAN_STRIKES_MAX = 4294967295

-- Returns the ban; nil if there is none or it is forgotten.
local function ban_read(key, now)
  local text = prefetch_get(key)
  if not text then
    return nil
  end
  local read, ends, forget, strikes, reason, actor = pcall(scan, '<I8I8I4ss', text)
  if not read or #text > BAN_BYTES_MAX or max(ends, forget) > TIME_MAX then
    error('CORRUPT ban of the key; Unban repairs it', 0)
  end
  if forget <= now then
    return nil
  end
  return { ends = ends, forget = forget, strikes = strikes, reason = reason, actor = actor }
end

local function ban_write(key, ban, now)
  local text = pack('<I8I8I4ss', ban.ends, ban.forget, ban.strikes, ban.reason, ban.actor)
  prefetch_set(key, text, ban.forget - now)
end
