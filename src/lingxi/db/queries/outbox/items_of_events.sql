-- $1 ids of `items.queued` events: those of their items that still wait, with the database's time in milliseconds.
-- Two branches, so that each finds its items by key: a range of positions, or a list of them.
select e.id as event_id, i.position, (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
  from outbox_events e join media_task_items i on i.task_id = e.task_id and i.position between e.first_position and e.last_position
 where e.id = any($1::bigint[]) and i.state in ('queued', 'retrying')
union all
select e.id, i.position, (extract(epoch from clock_timestamp()) * 1000)::bigint
  from outbox_events e cross join lateral unnest(e.positions) p (position)
  join media_task_items i on i.task_id = e.task_id and i.position = p.position
 where e.id = any($1::bigint[]) and i.state in ('queued', 'retrying')
 order by event_id, position
