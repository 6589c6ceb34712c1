-- Stores the state of a sequence, or a reply kept for repeats, from an export.
--
-- @include allocation
--
-- keys[1] counter hash: the sequence.
-- keys[2] replay string: the reply to a request.
-- argv[1] what c for the sequence, r for the reply.
-- argv[2] last 0..2^63-1.
-- argv[3] time µs, 0 if unknown.
-- argv[4] step of a reply.
-- argv[5] count of a reply.
-- argv[6] floor_applied of a reply, 0 or 1.
-- argv[7] forget of a reply, µs.
--
-- Returns {0}.
-- Writes counter, permanent; replay, TTL: until forget.
-- Cost O(1): 15 µs.
local function decide(keys, argv, now)
  local counter_key, replay_key, what, last, time = keys[1], keys[2], argv[1], argv[2], argv[3]
  local step, count, floor_applied, forget = argv[4], argv[5], argv[6], argv[7]
  if what == 'r' and tonumber(forget) <= now then
    return { OK }
  elseif what == 'r' then
    local answer = { ALLOCATION_GIVEN, floor_applied, last, step, count }
    allocation_write_replay(replay_key, answer, tonumber(forget) - now, now)
    return { OK }
  end
  call('HSET', counter_key, 'last', last)
  if time ~= '0' then
    call('HSET', counter_key, 'time', time)
  end
  return { OK }
end
