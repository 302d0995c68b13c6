-- $1 photo, $2 worker: pending → active, one attempt more, with a fence of its own. $3: this worker has asked before and was not
-- answered; what it may have got then is given again.
update photo_jobs set state = 'active', attempt = attempt + (state = 'pending')::int, worker = $2,
       attempt_id = case when state = 'pending' then nextval('attempt_ids') else attempt_id end,
       started_at = case when state = 'pending' then clock_timestamp() else started_at end,
       lease_renewed_at = clock_timestamp(), next_retry_at = null
 where photo_id = $1 and ((state = 'pending' and (next_retry_at is null or next_retry_at <= clock_timestamp())
                           and not exists (select from queue_holds h where h.queue = 'photo:process' and h.state = 'paused'))
                          or ($3 and state = 'active' and worker = $2))
returning attempt, attempt_id, extract(epoch from clock_timestamp() - created_at)::float8 as age_seconds
