-- $1 photo, $2 fence, $3 error or null, $4 seconds until the next attempt, $5 attempts to charge (0: it was given back)
update photo_jobs set state = 'pending', lease_renewed_at = null, last_error = coalesce($3, last_error), attempt = attempt - 1 + $5,
       next_retry_at = clock_timestamp() + make_interval(secs => $4)
 where photo_id = $1 and attempt_id = $2 and state = 'active' returning true
