-- $1 photo, $2 fence, $3 state (done or failed), $4 error or null, $5 the attempt's log lines or null
with ended as (
  update photo_jobs set state = $3, finished_at = clock_timestamp(), lease_renewed_at = null, last_error = $4
   where photo_id = $1 and attempt_id = $2 and state = 'active' returning *)
insert into photo_attempts (id, photo_id, round, number, worker, started_at, finished_at, outcome, error_code, log_lines)
select attempt_id, photo_id, round, attempt, worker, coalesce(started_at, finished_at), finished_at,
       case $3 when 'done' then 'succeeded' else 'failed' end, $4, $5::jsonb from ended
returning true
