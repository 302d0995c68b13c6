-- Queues that are held by hand, and whether items of each still run.
select h.queue, h.state, h.reason, h.held_at,
       exists (select from media_tasks t where t.type = h.queue and t.finished_at is null and t.running_items > 0)
       or (h.queue = 'photo:process' and exists (select from photo_jobs j where j.state = 'active')) as runs
  from queue_holds h order by h.queue
