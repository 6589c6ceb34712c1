-- Spreads the retries of callers whose waits end together; twin of `AdmitTask::spread`.
local SPREAD_MIN, SPREAD_MAX = 50 * 1000, 5 * 1000000

-- Returns the delay in ms plus up to an eighth of it (50 ms to 5 s).
local function spread(wait, seed, now)
  local window = min(max(floor(wait / 8), SPREAD_MIN), SPREAD_MAX)
  return ceil((wait + (seed + now) % window) / 1000)
end
