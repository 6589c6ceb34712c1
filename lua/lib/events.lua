-- The history of what changed, the twin of src/events.rs: a list of events, and before
-- them the number before the first one's. Numbers rise by one; a history that was lost
-- begins anew at the time in µs, beyond every number that it can have had.
--
-- Events are appended before anything else is written: that fails, and nothing has
-- changed, where the history is of another type.
local SLACK, HISTORY_TTL = 100, '86400000'

-- Appends events to a history that keeps so many at least.
local function log_events(events_key, most, now, ...)
  local length = call('RPUSH', events_key, ...)
  if length == select('#', ...) then
    call('LPUSH', events_key, format('%.0f', now))
  elseif length - 1 > most + SLACK then
    -- As if they had come one after the other.
    local drop = math.ceil((length - 1 - most - SLACK) / (SLACK + 1)) * (SLACK + 1)
    local base = tonumber(call('LINDEX', events_key, 0)) or now
    call('LTRIM', events_key, drop + 1, -1)
    call('LPUSH', events_key, format('%.0f', base + drop))
  end
  call('PEXPIRE', events_key, HISTORY_TTL)
end

-- What follows on the event of a number (0: on none, for all; empty: on the last one):
-- 1 when some are kept no longer, the number before the first of these events, that of
-- the last one that there is, 0 for none, and at most `limit` events.
local function page_events(events_key, after, limit)
  local first = call('LINDEX', events_key, 0)
  local base = tonumber(first or '0')
  if not base or base > 4503599627370495 then
    error('CORRUPT history of events; DEL of its key repairs it', 0)
  end
  local last = first and base + call('LLEN', events_key) - 1 or 0
  local from, gap = tonumber(after) or last, 0
  if from < base or from > last then
    gap, from = from > 0 and 1 or 0, base
  end
  local reply, index = { 0, gap, from, last }, from - base + 1
  if from < last then
    for _, text in ipairs(call('LRANGE', events_key, index, index + limit - 1)) do
      reply[#reply + 1] = text
    end
  end
  return reply
end
