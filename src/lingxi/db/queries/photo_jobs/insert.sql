-- $1 photo; again: a photo that had failed starts anew.
insert into photo_jobs (photo_id) values ($1)
on conflict (photo_id) do update set state = 'pending', attempt = 0, next_retry_at = null, finished_at = null, last_error = null,
       lease_renewed_at = null, created_at = clock_timestamp(), worker = null, attempt_id = null,
       started_at = null, round = photo_jobs.round + 1
 where photo_jobs.state = 'failed'
