-- How a lease is put on record, for the scripts that grant or extend one.
--
-- Where replicas have to confirm a grant, a second call can be told of the lease before
-- that: from then on it is not withdrawn (admission/withdraw.lua).

-- Puts a lease on record, and keeps the pool's keys until the last instant at which one
-- of its leases can matter.
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

-- The same of one that is put into the count.
local function put_lease(pool, task_key, member, task, last_token, now)
  list_lease(pool, lease_member(member, task), task.slot_end)
  record_lease(pool, task_key, member, task, last_token, now)
end
