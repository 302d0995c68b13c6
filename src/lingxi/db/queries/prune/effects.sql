-- $1 a task that is gone, $2 at most
delete from drill_effects where task_id = $1 and position in (
  select position from drill_effects where task_id = $1 order by position limit $2::int)
