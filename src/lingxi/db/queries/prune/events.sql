-- Events that were published long ago. $1 seconds that one is kept, $2 at most. Those of a task that has not ended stay: they say which
-- jobs were sent for its items.
delete from outbox_events where id in (
  select e.id from outbox_events e
   where e.published_at < clock_timestamp() - make_interval(secs => $1::float8)
     and not exists (select from media_tasks t where t.id = e.task_id and t.finished_at is null)
   order by e.published_at limit $2::int for update of e skip locked)
