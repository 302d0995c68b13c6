-- $1 task, whose lock is held, $2 priority, $3 ring again for what was sent and still waits, $4 items an event. What is in the outbox
-- changes its place there. A second job for an item does no harm: whichever bell rings later is dropped.
with t as (update media_tasks set priority = $2 where id = $1 returning *),
e as (update outbox_events set priority = $2 where task_id = $1 and published_at is null and type = 'items.queued'),
sent as (
  select i.position, row_number() over (order by i.position) as n from media_task_items i
   where $3::boolean and i.task_id = $1 and i.state = 'queued'
     and not exists (select from outbox_events o where o.task_id = $1 and o.published_at is null and o.type = 'items.queued'
                        and (i.position between o.first_position and o.last_position or i.position = any(o.positions))))
insert into outbox_events (type, queue, workspace_id, priority, task_id, round, positions, item_count)
select 'items.queued', t.type, t.workspace_id, t.priority, t.id, t.round, array_agg(s.position order by s.position), count(*)
  from sent s, t group by t.type, t.workspace_id, t.priority, t.id, t.round, (s.n - 1) / $4::int
