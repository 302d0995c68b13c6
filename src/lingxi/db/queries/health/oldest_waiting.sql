-- $1 queues: for each with work the longest wait (seconds) of anything that is due, wherever it waits, and how many items wait for a retry.
-- An item waits since it was queued, one that retries since its attempt was due; so does a photo that was uploaded. A photo that
-- retries is delayed in Redis, and counted there.
with waits as (
  select t.type as queue, w.since, t.retrying_items as retrying
    from media_tasks t
    left join lateral (
      select min(case when i.state = 'retrying' then i.next_attempt_at else coalesce(i.queued_at, t.created_at) end) as since
        from media_task_items i
       where i.task_id = t.id and (i.state = 'queued' or (i.state = 'retrying' and i.next_attempt_at <= clock_timestamp()))) w
      on t.queued_items + t.retrying_items > 0
   where t.finished_at is null and t.type = any($1)
  union all
  select 'photo:process', min(coalesce(next_retry_at, created_at)), 0
    from photo_jobs
   where state = 'pending' and (next_retry_at is null or next_retry_at <= clock_timestamp()) and 'photo:process' = any($1)
)
select queue, max(extract(epoch from clock_timestamp() - since))::float8 as oldest_seconds, sum(retrying)::bigint as retrying
  from waits group by queue
