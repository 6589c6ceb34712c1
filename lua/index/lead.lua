-- Makes a server the one that sweeps, unless another one does.
--
-- keys[1] sweeper string: the server that sweeps
-- argv[1] server text that names it
-- argv[2] hold_ms ms that it does without a further word
--
-- Returns {0, now}: another one sweeps
--         {1, now}: it does
-- Writes sweeper, TTL: hold
-- Cost O(1)
local function decide(keys, argv, now)
  local sweeper_key, server, hold_ms = keys[1], argv[1], argv[2]
  if call('TYPE', sweeper_key).ok == 'string' and call('GET', sweeper_key) ~= server then
    return { 0, now }
  end
  call('SET', sweeper_key, server, 'PX', hold_ms)
  return { 1, now }
end
