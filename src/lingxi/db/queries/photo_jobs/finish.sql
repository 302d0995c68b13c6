-- $1 photo, $2 fence, $3 state (done or failed), $4 error or null
update photo_jobs set state = $3, finished_at = clock_timestamp(), lease_renewed_at = null, last_error = $4
 where photo_id = $1 and attempt_id = $2 and state = 'active' returning true
