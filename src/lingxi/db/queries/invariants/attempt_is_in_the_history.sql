-- The last attempt of an item is in the history when it ended without success, and only then.
select i.task_id::text || '/' || i.position as subject, format('%s; its attempt %s is in the history: %s', i.state, i.attempt_id, a.id is not null) as detail
  from media_task_items i left join media_task_attempts a on a.id = i.attempt_id and a.task_id = i.task_id and a.position = i.position
 where i.task_id = any($1::uuid[]) and i.attempt_id is not null and (a.id is null) = (i.state not in ('running', 'succeeded'))
