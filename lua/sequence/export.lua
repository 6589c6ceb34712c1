-- Reads the state of a sequence, or a reply kept for repeats, for an export.
--
-- @include allocation decimal sequence
--
-- keys[1] counter hash: the sequence.
-- keys[2] replay string: the reply to a request.
-- argv[1] what c for the sequence, r for the reply.
--
-- Returns {0, '' the only page}: nothing is stored, or values are only reserved.
--         {0, '', '' letter, last text, time text}: values that another primary reserved count
--         as given out.
--         {0, '', 'r' letter, last text, step text, count text, floor_applied 0 or 1, forget}.
-- Writes nothing.
-- Cost O(1): 15 µs.

-- The highest value of a sequence.
local VALUE_MAX = '9223372036854775807'

local function decide(keys, argv, now)
  local counter_key, replay_key, what = keys[1], keys[2], argv[1]
  if what == 'r' then
    local answer, forget = allocation_read_replay(replay_key, VALUE_MAX, now)
    if not answer then
      return { OK, '' }
    end
    return { OK, '', 'r', answer[3], answer[4], answer[5], answer[2] - ALLOCATION_REPLAYED, forget }
  end
  local last, time, reserved, _, by = sequence_read(counter_key, VALUE_MAX)
  if reserved and by ~= sequence_epoch() then
    last = decimal_max(last or '0', reserved)
  end
  if not last then
    return { OK, '' }
  end
  return { OK, '', '', last, time or '0' }
end
