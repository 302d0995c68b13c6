-- An item is of no later round than its task; what is not final is of the task's round; and no item had more attempts than allowed.
select i.task_id::text || '/' || i.position as subject,
       format('%s, attempt %s of %s, round %s of %s', i.state, i.attempt, t.max_attempts, i.round, t.round) as detail
  from media_tasks t join media_task_items i on i.task_id = t.id
 where t.id = any($1::uuid[])
   and (i.round > t.round or i.attempt < 0 or i.attempt > t.max_attempts
        or (i.state in ('queued', 'running', 'retrying') and i.round <> t.round)
        or (i.state = 'running' and i.lease_expires_at > i.deadline_at))
