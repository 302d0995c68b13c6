-- Each counter of a task is the number of its items in that state, and there are as many items as it says.
select t.id::text as subject,
       format('counters %s, items %s', array[t.total_items, t.queued_items, t.running_items, t.retrying_items, t.succeeded_items, t.failed_items, t.cancelled_items],
              array[i.total, i.queued, i.running, i.retrying, i.succeeded, i.failed, i.cancelled]) as detail
  from media_tasks t
  cross join lateral (
    select count(*)::int as total, count(*) filter (where state = 'queued')::int as queued, count(*) filter (where state = 'running')::int as running,
           count(*) filter (where state = 'retrying')::int as retrying, count(*) filter (where state = 'succeeded')::int as succeeded,
           count(*) filter (where state = 'failed')::int as failed, count(*) filter (where state = 'cancelled')::int as cancelled
      from media_task_items where task_id = t.id) i
 where t.id = any($1::uuid[])
   and (t.total_items, t.queued_items, t.running_items, t.retrying_items, t.succeeded_items, t.failed_items, t.cancelled_items)
       is distinct from (i.total, i.queued, i.running, i.retrying, i.succeeded, i.failed, i.cancelled)
