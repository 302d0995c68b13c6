-- $1 workspace, $2 task
select cancel_task($1, $2)
