-- $1 photo, $2 worker: pending → active, one attempt more, with a fence of its own.
update photo_jobs set state = 'active', attempt = attempt + 1, attempt_id = nextval('attempt_ids'), worker = $2,
       lease_renewed_at = clock_timestamp(), next_retry_at = null
 where photo_id = $1 and state = 'pending' and (next_retry_at is null or next_retry_at <= clock_timestamp())
returning attempt, attempt_id
