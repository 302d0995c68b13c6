-- $1 photo: its job as it is, and in how many seconds it is worth a look: when it is due; while the queue is paused, some seconds later.
select state, greatest(case when exists (select from queue_holds h where h.queue = 'photo:process' and h.state = 'paused') then 5 else 0 end,
                       extract(epoch from coalesce(next_retry_at - clock_timestamp(), interval '0')))::float8 as due_in_seconds
  from photo_jobs where photo_id = $1
