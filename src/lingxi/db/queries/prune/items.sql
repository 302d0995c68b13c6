-- $1 a task that is gone, $2 at most
delete from media_task_items where task_id = $1 and position in (
  select position from media_task_items where task_id = $1 order by position limit $2::int)
