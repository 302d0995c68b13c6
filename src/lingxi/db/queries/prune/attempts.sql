-- $1 a task that is gone, $2 at most
delete from media_task_attempts where id in (select id from media_task_attempts where task_id = $1 limit $2::int)
