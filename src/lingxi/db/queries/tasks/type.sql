-- $1 task id: its logical queue.
select type from media_tasks where id = $1
