-- $1 workspace, $2 task, $3 items an event
select retry_failed($1, $2, $3)
