-- The numbers in the reply of a check: verdicts, which are also the actions of tiers, and flags.
local CHECK_ALLOW, CHECK_WARN, CHECK_THROTTLE, CHECK_BAN, CHECK_TOO_MANY_NAMES = 0, 1, 2, 3, 4
local CHECK_CROSSED, CHECK_REPLAYED, CHECK_BAN_FOLLOWS = 1, 2, 4
