-- $1 type, $2 task ids, $3 positions: which of these are items of that type at all (a job may name anything), which of them wait and
-- are due, but are suspects, and which wait and are due but are held back: in a workspace that has a cap, or as the queue is paused.
select i.task_id, i.position,
       i.state = 'retrying' and i.next_attempt_at <= clock_timestamp() and i.error_code = 'worker_lost' as suspect,
       (i.state = 'queued' or (i.state = 'retrying' and i.next_attempt_at <= clock_timestamp()))
         and (c.workspace_id is not null or exists (select from queue_holds h where h.queue = $1 and h.state = 'paused')) as capped
  from unnest($2::uuid[], $3::int[]) u(task_id, position)
  join media_tasks t on t.id = u.task_id and t.type = $1
  join media_task_items i on i.task_id = u.task_id and i.position = u.position
  left join workspace_caps c on c.workspace_id = t.workspace_id
