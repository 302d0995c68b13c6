-- The jobs that should ring for the waiting items of a task: each published event with each item of it that still waits.
-- $1 task, $2 round, $3 published at least so many seconds ago
select e.id as event_id, i.position
  from outbox_events e
  join media_task_items i on i.task_id = e.task_id and (i.position between e.first_position and e.last_position or i.position = any(e.positions))
 where e.task_id = $1 and e.type = 'items.queued' and e.round = $2 and e.published_at < clock_timestamp() - make_interval(secs => $3)
   and (i.state = 'queued' or (i.state = 'retrying' and i.next_attempt_at <= clock_timestamp()))
