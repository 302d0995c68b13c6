-- $1 workspace, $2 task
select * from media_tasks where workspace_id = $1 and id = $2 for no key update
