-- $1 ids of `items.queued` events: those of their items that still wait, with the database's time in milliseconds.
-- LATERAL with OFFSET 0: always by key, event after event (a range of positions or a list of them), never a scan of the items.
select e.id as event_id, i.position, (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
  from outbox_events e cross join lateral (
    select position from media_task_items
     where task_id = e.task_id and position between e.first_position and e.last_position and state in ('queued', 'retrying')
    offset 0) i
 where e.id = any($1::bigint[]) and e.positions is null
union all
select e.id, i.position, (extract(epoch from clock_timestamp()) * 1000)::bigint
  from outbox_events e cross join lateral (
    select position from media_task_items
     where task_id = e.task_id and position = any(e.positions) and state in ('queued', 'retrying')
    offset 0) i
 where e.id = any($1::bigint[]) and e.positions is not null
 order by event_id, position
