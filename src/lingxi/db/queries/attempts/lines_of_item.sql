-- $1 task, $2 position: the log lines of each ended attempt, in the order of items/attempts.sql; null: it left none
select log_lines from media_task_attempts where task_id = $1 and position = $2 order by started_at, id
