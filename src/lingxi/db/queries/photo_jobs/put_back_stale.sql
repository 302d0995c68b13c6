-- Active rows whose lease was not renewed for so many seconds, back to pending; or those of a worker that died. $1 seconds, $2 limit,
-- $3 worker or null
with lost as (
  update photo_jobs j set state = 'pending', lease_renewed_at = null, next_retry_at = clock_timestamp(), last_error = 'worker_lost'
    from (select photo_id from photo_jobs
           where state = 'active' and case when $3::text is null then lease_renewed_at < clock_timestamp() - make_interval(secs => $1)
                                           else worker = $3 end
           order by lease_renewed_at limit $2 for update skip locked) s
   where j.photo_id = s.photo_id returning j.*)
insert into photo_attempts (id, photo_id, round, number, worker, started_at, finished_at, outcome, error_code)
select attempt_id, photo_id, round, attempt, worker, coalesce(started_at, clock_timestamp()), clock_timestamp(), 'lost', 'worker_lost' from lost
returning photo_id
