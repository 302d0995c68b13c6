-- The task's causes: for each state and code how many items, and the first of them. $1 workspace, $2 task
select t.status, t.type, i.state, i.error_code, count(*)::bigint as items, min(i.position) as first_position,
       bool_or(i.error_retryable) as retryable, min(i.error_message) as error_message
  from media_tasks t join media_task_items i on i.task_id = t.id
 where t.workspace_id = $1 and t.id = $2
 group by t.status, t.type, i.state, i.error_code order by items desc, first_position
