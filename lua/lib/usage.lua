-- Usage of a limit by one key, for the algorithms.
--
-- An algorithm is a table: load(limit, text, at, size, now), wait(limit, cost, now), spend(limit,
-- cost, now), count(limit), reset(limit, now), dump(limit, now), since(limit, now). A stored usage
-- has `least` bytes plus a multiple of `each`. Twins are the structs of
-- crates/core/src/rate/usage.rs.
local USAGE_COUNT_MAX = 4294967295
local USAGE_UNREADABLE = 'CORRUPT usage of the key; ResetRate repairs it'
