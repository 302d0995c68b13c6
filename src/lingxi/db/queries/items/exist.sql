-- $1 type, $2 task ids, $3 positions: which of these are items of that type at all (a job may name anything), which of them wait and are due,
-- and which of those are suspects. Asked of what a claim left: not why it did (a cap may have been lifted since, a queue resumed).
select i.task_id, i.position, w.waits, w.waits and i.state = 'retrying' and i.error_code = 'worker_lost' as suspect
  from unnest($2::uuid[], $3::int[]) u(task_id, position)
  join media_tasks t on t.id = u.task_id and t.type = $1
  join media_task_items i on i.task_id = u.task_id and i.position = u.position
  cross join lateral (select i.state = 'queued' or (i.state = 'retrying' and i.next_attempt_at <= clock_timestamp()) as waits) w
