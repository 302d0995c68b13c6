-- $1 limit, $2 worker or null: attempts whose lease has run out, or (worker given) all of a dead process. It locks nothing: what holds
-- is looked at again by who ends them.
select i.task_id, i.position, i.attempt_id as fence
  from media_tasks t join media_task_items i on i.task_id = t.id
 where t.finished_at is null and t.running_items > 0 and i.state = 'running'
   and case when $2::text is null then i.lease_expires_at < clock_timestamp() else i.worker = $2 end
 limit $1
