-- $1 photo: the attempts of its first publication, oldest first, the one that runs too
select round, number, worker, started_at, finished_at, outcome, error_code, log_lines from (
  select id, round, number, worker, started_at, finished_at, outcome, error_code, log_lines from photo_attempts where photo_id = $1
  union all
  select attempt_id, round, attempt, worker, started_at, null, 'running', null, null from photo_jobs
   where photo_id = $1 and state = 'active' and started_at is not null) a
 order by started_at, id
