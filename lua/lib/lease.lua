-- Writes leases, for the scripts that grant or extend one.
--
-- With replica acknowledgement, a repeat or a renewal can be answered with a lease before replicas
-- have it. The lease is then disclosed (`is_told`), and never revoked (admission/withdraw.lua).

-- Writes the task record of a lease, and keeps the pool's keys as long as the lease can matter:
-- until its slot end plus the retention.
local function record_lease(pool, task_key, member, task, last_token, now)
  local forget = task.slot_end + pool.retention
  keep(pool, forget)
  pool.last_token = last_token
  if not task.standing then
    put_record(pool, task_key, task_record(task.is_told and 'l' or 'L', task, forget, ''), forget, now)
    return
  end
  write_pool(pool, now)
  if task.standing ~= 'Q' then
    task.forget = forget
    call('ZADD', pool.due, digits(forget), member)
  end
  write_queued(pool.queued, member, task)
end

-- The same, and adds the lease to the count.
local function put_lease(pool, task_key, member, task, last_token, now)
  list_lease(pool, lease_member(member, task), task.slot_end)
  record_lease(pool, task_key, member, task, last_token, now)
end
