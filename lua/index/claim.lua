-- Makes a server the sweeper, unless another server already is.
--
-- keys[1] sweeper string: the server that sweeps
-- argv[1] server its name
-- argv[2] hold_ms how long it stays the sweeper without another call, ms
--
-- Returns {0, now}: another server sweeps
--         {1, now}: this server sweeps
-- Writes sweeper, TTL: hold_ms
-- Cost O(1)
local CLAIM_ANOTHER, CLAIM_THIS = 0, 1

local function decide(keys, argv, now)
  local sweeper_key, server, hold_ms = keys[1], argv[1], argv[2]
  if call('TYPE', sweeper_key).ok == 'string' and call('GET', sweeper_key) ~= server then
    return { CLAIM_ANOTHER, now }
  end
  call('SET', sweeper_key, server, 'PX', hold_ms)
  return { CLAIM_THIS, now }
end
