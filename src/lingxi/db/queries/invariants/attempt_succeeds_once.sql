-- An item succeeds at most once, over all of its rounds and attempts.
select i.task_id::text || '/' || i.position as subject, format('%s, and %s earlier successes', i.state, a.successes) as detail
  from media_task_items i
  join (select task_id, position, count(*) as successes from media_task_attempts
         where task_id = any($1::uuid[]) and outcome = 'succeeded' group by task_id, position) a using (task_id, position)
 where i.task_id = any($1::uuid[]) and a.successes + (i.state = 'succeeded')::int > 1
