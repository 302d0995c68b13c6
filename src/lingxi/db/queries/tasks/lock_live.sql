-- $1 workspace, $2 task: its priority, and whether it has ended; locked.
select priority, finished_at is not null as ended from media_tasks where id = $2 and workspace_id = $1 for no key update
