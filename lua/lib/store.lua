-- The marker of the store, by which servers recognise that Redis has lost its data: a string
-- "id state time". A script that finds no record calls `store_read` before it begins a new one.
--
-- id     hexadecimal; the servers remember it
-- state  whole: nothing is lost. lost: the data before `time` is lost. continued: the same, but no
--        call is refused because of it (`on_store_loss`). accepted: an operator has accepted the loss
-- time   when a server recognised the loss, µs; 0 if nothing was lost
--
-- The last arguments of a script call are the key of the marker on this node, its text as the server
-- knows it, and the token lead (lib/fencing.lua). Key and text are empty for a node without a marker.
local STORE_LOST, STORE_ACCEPTED = 'lost', 'accepted'
local STORE_KEY, STORE_TEXT = ARGV[#ARGV - 2], ARGV[#ARGV - 1]

-- Returns state and time; an empty state if there is no marker to compare. Fails if the marker
-- differs from what the server knows: the server then reads the marker and calls again. Nothing was
-- written.
local function store_read()
  if STORE_KEY == '' then
    return '', 0
  end
  local read, text = pcall(call, 'GET', STORE_KEY)
  if not read then
    -- The slot of the marker is moving to another node. The next probe finds the marker of this one.
    return '', 0
  elseif text ~= STORE_TEXT then
    error('STORE_CHANGED', 0)
  end
  local state, time = match(text, '^%x+ (%l+) (%d+)$')
  return state, tonumber(time)
end

-- Fails if the record of a sequence may have been lost.
local function store_check()
  if store_read() == STORE_LOST then
    error('STORE_LOST', 0)
  end
end
