-- Only what succeeded has a result; only what failed or waits after a failure has an error; a final item began before it ended.
select i.task_id::text || '/' || i.position as subject,
       format('%s with result %s, error %s', i.state, i.result is not null, coalesce(i.error_code, 'none')) as detail
  from media_task_items i
 where i.task_id = any($1::uuid[])
   and ((i.result is not null and i.state <> 'succeeded') or (i.error_code is not null and i.state in ('succeeded', 'running', 'cancelled'))
        or (i.state in ('succeeded', 'failed') and i.attempt_id is null and i.error_code is distinct from 'dispatch_failed')
        or i.started_at > i.finished_at)
