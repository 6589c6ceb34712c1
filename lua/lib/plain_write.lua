-- Writes of plain scripts for several decisions together.
--
-- @include failure plain

-- Writes the changes of `number` decisions with `write(state)`. If that fails, they may have changed
-- something: they fail with its message, and the rest of the call is undecided.
local function plain_write(state, number, write)
  local written, raised = pcall(write, state)
  if not written then
    plain_failed, plain_message = number, failure(raised)[2]
    error(plain_message, 0)
  end
end
