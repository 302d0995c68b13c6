-- $1 endpoint, $2 and $3 created at and event of the last one seen (null: from the newest), $4 limit, $5 states or null
select * from (
  select d.*, v.type, case when d.delivered_at is not null and coalesce(i.state, 'succeeded') = 'succeeded' then 'delivered'
                           when d.task_id is null then 'missed' else coalesce(i.state, 'failed') end as state, i.next_attempt_at
    from webhook_deliveries d join webhook_events v on v.id = d.event_id
    left join media_task_items i on i.task_id = d.task_id and i.position = d.position
   where d.endpoint_id = $1 and ($2::timestamptz is null or (d.created_at, d.event_id) < ($2, $3::uuid))) found
 where $5::text[] is null or state = any($5)
 order by created_at desc, event_id desc limit $4
