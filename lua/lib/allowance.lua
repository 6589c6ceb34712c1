-- The allowance that this script call, with all its items, may still spend on expired entries; twin
-- of crates/core/src/allowance.rs. Lapsed waiters, expired leases and queued tasks share it, so
-- that a call stays below 5 ms however many have expired at the same time. A unit is about 3 µs of
-- Redis time. The last entry may cost more than is left.
local allowance = 500
-- The costs of an expired lease, and of a task that leaves its queue, with or without a lease, and
-- frees a payload of up to 64 KiB. A lapsed waiter costs one unit.
local ALLOWANCE_LEASE, ALLOWANCE_TASK = 5, 12
