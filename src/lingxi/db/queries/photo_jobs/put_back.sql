-- $1 photo, $2 fence, $3 error or null, $4 seconds until the next attempt, $5 attempts to charge (0: it was given back), $6 the attempt's
-- log lines or null
with ended as (
  update photo_jobs set state = 'pending', lease_renewed_at = null, last_error = coalesce($3, last_error), attempt = attempt - 1 + $5,
         next_retry_at = clock_timestamp() + make_interval(secs => $4)
   where photo_id = $1 and attempt_id = $2 and state = 'active' returning *)
insert into photo_attempts (id, photo_id, round, number, worker, started_at, finished_at, outcome, error_code, log_lines)
select attempt_id, photo_id, round, attempt + 1 - $5, worker, coalesce(started_at, clock_timestamp()), clock_timestamp(),
       case $5 when 0 then 'released' else 'retrying' end, $3, $6::jsonb from ended
returning true
