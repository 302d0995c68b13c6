-- An event that could not be sent is charged. $1 id, $2 what went wrong, $3 seconds until the next try, $4 attempts at most.
-- A row that was written by hand may hold any count.
update outbox_events
   set attempts = least(attempts, 1000000) + 1, error_detail = left($2, 1000), next_attempt_at = clock_timestamp() + make_interval(secs => $3),
       last_error = case when attempts >= $4 - 1 then 'dead_lettered' else 'send_failed' end
 where id = $1 and published_at is null
returning attempts, last_error
