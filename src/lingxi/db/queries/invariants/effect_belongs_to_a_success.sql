-- The row that a `demo:drill` item leaves is committed with its success: by the attempt that succeeded, and by no other.
select d.task_id::text || '/' || d.position as subject, format('an effect of attempt %s; the item is %s by %s', d.attempt_id, i.state, i.attempt_id) as detail
  from drill_effects d left join media_task_items i on i.task_id = d.task_id and i.position = d.position
 where d.task_id = any($1::uuid[]) and (i.state is distinct from 'succeeded' or i.attempt_id is distinct from d.attempt_id)
