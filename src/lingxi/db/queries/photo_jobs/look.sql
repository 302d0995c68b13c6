-- $1 photo: its job as it is, and in how many seconds it is due.
select state, greatest(0, extract(epoch from coalesce(next_retry_at - clock_timestamp(), interval '0')))::float8 as due_in_seconds
  from photo_jobs where photo_id = $1
