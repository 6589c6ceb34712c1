-- The only reading of the clock: microseconds since the Unix epoch.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
