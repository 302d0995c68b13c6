-- $1 type, $2 task ids, $3 positions: which of these are items of that type at all (a job may name anything),
-- and which of them wait and are due, but are suspects.
select i.task_id, i.position,
       i.state = 'retrying' and i.next_attempt_at <= clock_timestamp() and i.error_code = 'worker_lost' as suspect
  from unnest($2::uuid[], $3::int[]) u(task_id, position)
  join media_tasks t on t.id = u.task_id and t.type = $1
  join media_task_items i on i.task_id = u.task_id and i.position = u.position
