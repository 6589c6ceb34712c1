-- Writes the changes of several decisions of a plain script together.
--
-- @include failure plain

-- Writes the changes of `number` decisions with `write(state)`. If that fails, some changes may
-- have been written, so these decisions fail with its message, and the rest of the call stays
-- undecided.
local function plain_write(state, number, write)
  local written, raised = pcall(write, state)
  if not written then
    plain_failed, plain_message = number, failure(raised)[2]
    error(plain_message, 0)
  end
end
