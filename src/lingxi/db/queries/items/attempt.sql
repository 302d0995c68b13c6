-- $1 task id, $2 position, $3 fence: the attempt that this is, while it owns its item; its type, and how many a round may have.
select i.attempt, i.round, t.max_attempts, t.type, t.workspace_id
  from media_task_items i join media_tasks t on t.id = i.task_id
 where i.task_id = $1 and i.position = $2 and i.attempt_id = $3
