-- $1 queues: for each with live items the longest wait (seconds) of one that is due, wherever it waits, and how many wait for a retry.
-- An item waits since it was queued, one that retries since its attempt was due.
select t.type as queue,
       max(extract(epoch from clock_timestamp() - w.since))::float8 as oldest_seconds,
       sum(t.retrying_items)::bigint as retrying
  from media_tasks t
  left join lateral (
    select min(case when i.state = 'retrying' then i.next_attempt_at else coalesce(i.queued_at, t.created_at) end) as since
      from media_task_items i
     where i.task_id = t.id and (i.state = 'queued' or (i.state = 'retrying' and i.next_attempt_at <= clock_timestamp()))) w
    on t.queued_items + t.retrying_items > 0
 where t.finished_at is null and t.type = any($1)
 group by t.type
