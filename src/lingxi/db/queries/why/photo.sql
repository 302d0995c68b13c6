-- A photo's first publication: its job, and whether its event was sent. $1 workspace, $2 photo
select p.id, p.processing_state, p.visibility::text as visibility, p.error_code, j.state, j.attempt, j.worker, j.last_error, j.created_at as waits_since,
       extract(epoch from j.next_retry_at - clock_timestamp())::float8 as due_in_seconds, j.next_retry_at,
       h.state as hold_state, h.reason as hold_reason, h.held_at,
       (select count(*) from photo_jobs b where b.state = 'pending' and b.created_at < j.created_at)::bigint as ahead
  from photos p left join photo_jobs j on j.photo_id = p.id left join queue_holds h on h.queue = 'photo:process'
 where p.workspace_id = $1 and p.id = $2 and p.deleted_at is null
