-- Gives out the next values of a sequence.
--
-- @include allocation decimal sequence store
--
-- keys[1] counter hash: the sequence.
-- keys[2] replay string: the reply kept for repeats of this request.
-- argv[1] count values, 1..2^63-1.
-- argv[2] step distance of values, also from the last one given out, 1..2^63-1.
-- argv[3] span (count - 1) * step, 0..2^63-1.
-- argv[4] floor lowest value to give out, 0..2^63-1, empty for none.
-- argv[5] most highest value of the sequence, 1..2^63-1.
-- argv[6] keep TTL of the reply for repeats, µs, 0 for none.
-- argv[7] dating calendar (lib/calendar.lua), empty for plain values.
-- argv[8] reserve 1 if values are reserved ahead, else 0.
-- argv[9] confirmed a reservation that replicas acknowledged, 0..2^63-1.
-- argv[10] epoch of that reservation, empty for none.
--
-- Returns {0 given, flags, last, step, count}, flags: 1 floor applied, 2 replayed.
--         {1 out of range}: they would be above most.
--         {2 too far ahead, 0 or 1: because of the floor}: they would be too far beyond the clock.
--         {3 unreserved, last}: values up to this one must be reserved first.
-- Fails with STORE_LOST if there is no last value, no applied floor, and the
-- store has lost its data.
-- Writes counter, permanent; replay, TTL: keep.
-- Cost O(1): 30 µs.

local function decide(keys, argv, now)
  local counter_key, replay_key, count = keys[1], keys[2], argv[1]
  local ask = { step = argv[2], span = argv[3], floor = argv[4], most = argv[5], dating = argv[7] }
  local keep, reserve, known, known_in = tonumber(argv[6]), argv[8] == '1', argv[9], argv[10]

  local replay = keep > 0 and allocation_read_replay(replay_key, ask.most, now)
  if replay then
    return replay
  end
  local this = reserve and sequence_epoch() or nil
  local last, reserved, confirmed = sequence_read_reserved(counter_key, ask.most, this)
  if reserve and known_in == this and reserved ~= '0' then
    confirmed = decimal_max(confirmed, known)
  end
  local status, final, applied = allocation_next(ask, last, now)
  if status ~= ALLOCATION_GIVEN then
    return { status, applied }
  end
  if not last and applied == 0 then
    store_check()
  elseif not last then
    store_read()
  end
  if reserve and decimal_exceeds(final, confirmed) then
    return { ALLOCATION_UNRESERVED, final }
  end
  local marks = reserve and { 'confirmed', confirmed } or {}
  call('HSET', counter_key, 'last', final, 'time', format('%.0f', now), unpack(marks))
  local answer = { ALLOCATION_GIVEN, applied, final, ask.step, count }
  if keep > 0 then
    allocation_write_replay(replay_key, answer, keep, now)
  end
  return answer
end
