-- $1 task ids, $2 positions, $3 worker, $4 fences that it knows of: which of these items it owns by other attempts.
select i.task_id, i.position, i.attempt_id
  from unnest($1::uuid[], $2::int[]) u(task_id, position)
  join media_task_items i on i.task_id = u.task_id and i.position = u.position
 where i.state = 'running' and i.worker = $3 and i.attempt_id <> all ($4::bigint[])
