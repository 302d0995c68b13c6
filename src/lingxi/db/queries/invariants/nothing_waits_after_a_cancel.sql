-- Once a cancel was asked, no item waits in that round.
select i.task_id::text || '/' || i.position as subject, format('%s although a cancel was asked', i.state) as detail
  from media_tasks t join media_task_items i on i.task_id = t.id
 where t.id = any($1::uuid[]) and t.cancel_requested_at is not null and i.state in ('queued', 'retrying')
