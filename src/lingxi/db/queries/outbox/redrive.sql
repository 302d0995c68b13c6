-- A dead letter is an event again, as if it had never been tried. $1 id, $2 its new payload or null. Items go to the queue of their task's type.
update outbox_events e
   set attempts = 0, last_error = null, next_attempt_at = clock_timestamp(), payload = coalesce($2::jsonb, payload),
       queue = case when e.type = 'items.queued' then coalesce((select t.type from media_tasks t where t.id = e.task_id), queue) else queue end
 where id = $1 and published_at is null and last_error = 'dead_lettered'
returning id
