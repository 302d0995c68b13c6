-- $1 photos, $2 fences: answers those that are still owned.
update photo_jobs j set lease_renewed_at = clock_timestamp()
  from unnest($1::uuid[], $2::bigint[]) u(photo_id, fence)
 where j.photo_id = u.photo_id and j.attempt_id = u.fence and j.state = 'active'
returning j.photo_id
