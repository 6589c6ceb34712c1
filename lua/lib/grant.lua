-- Writes leases, for the scripts that grant or extend one.
--
-- @include changes digits leases queued task
--
-- A repeat or a renewal can be answered with a lease before replicas have it, or after the caller
-- to which it was granted has disconnected. The lease is then disclosed (`is_disclosed`), and never
-- revoked (admission/revoke.lua).

-- Writes the task record of a lease, and keeps the pool's keys as long as the lease can matter:
-- until its slot end plus the retention.
local function grant_write_record(pool, task_key, member, task, last_token, now)
  local forget = task.slot_end + pool.retention
  changes_keep(pool, forget)
  pool.last_token = last_token
  if not task.standing then
    local state = task.is_disclosed and TASK_DISCLOSED or TASK_LEASED
    changes_put_record(pool, task_key, task_encode(state, task, forget, ''), forget, now)
    return
  end
  changes_write(pool, now)
  if task.standing ~= QUEUED_WAITING then
    task.forget = forget
    call('ZADD', pool.due, digits(forget), member)
  end
  queued_write(pool.queued, member, task)
end

-- Does the same, and adds the lease to the count.
local function grant_write_lease(pool, task_key, member, task, last_token, now)
  changes_list_lease(pool, leases_encode(member, task), task.slot_end)
  grant_write_record(pool, task_key, member, task, last_token, now)
end
