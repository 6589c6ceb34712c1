-- History of changes; twin of crates/core/src/collections/history.rs. A list: the number before the first event, then
-- the events. Numbers rise by one. A lost history starts again at the time in µs, which is
-- above every number that it can have had.
--
-- Events are appended before any other write: if the history has another type, the script
-- fails before it has changed anything.
local EVENTS_SLACK, EVENTS_TTL = 100, '86400000'

-- Appends events, and trims the history to at least `most` events.
local function events_append(events_key, most, now, ...)
  local length = call('RPUSH', events_key, ...)
  if length == select('#', ...) then
    call('LPUSH', events_key, format('%.0f', now))
  elseif length - 1 > most + EVENTS_SLACK then
    -- Trims as if the events had been appended one by one.
    local drop = math.ceil((length - 1 - most - EVENTS_SLACK) / (EVENTS_SLACK + 1)) * (EVENTS_SLACK + 1)
    local base = tonumber(call('LINDEX', events_key, 0)) or now
    call('LTRIM', events_key, drop + 1, -1)
    call('LPUSH', events_key, format('%.0f', base + drop))
  end
  call('PEXPIRE', events_key, EVENTS_TTL)
end

-- Reads at most `limit` events after number `after` (0: after none; empty: no events, only the
-- last number). Returns {0, 1 if some of them are no longer kept, number before the first
-- returned event, number of the last event or 0, event …}.
local function events_page(events_key, after, limit)
  local first = call('LINDEX', events_key, 0)
  local base = tonumber(first or '0')
  if not base or base > 4503599627370495 then
    error('CORRUPT event history; DEL of its key, which ends in :events, repairs it', 0)
  end
  local last = first and base + call('LLEN', events_key) - 1 or 0
  local from, gap = tonumber(after) or last, 0
  if from < base or from > last then
    gap, from = from > 0 and 1 or 0, base
  end
  local reply, index = { OK, gap, from, last }, from - base + 1
  if from < last then
    for _, text in ipairs(call('LRANGE', events_key, index, index + limit - 1)) do
      reply[#reply + 1] = text
    end
  end
  return reply
end
