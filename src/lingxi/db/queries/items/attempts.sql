-- $1 task, $2 positions: the ended attempts of these items, oldest first.
select position, round, number, worker, started_at, finished_at, outcome, error_code, error_message, error_retryable
  from media_task_attempts where task_id = $1 and position = any($2) order by position, started_at, id
