-- $1 a task that is gone, $2 at most
delete from outbox_events where id in (select id from outbox_events where task_id = $1 order by id limit $2::int)
