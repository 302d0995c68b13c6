-- An event for items that wait and were lost on their way. $1 task, $2 positions. Those that an unpublished event covers are on their way.
with lost as (
  select i.position, i.next_attempt_at from media_task_items i
   where i.task_id = $1 and i.position = any($2) and i.state in ('queued', 'retrying')
     and not exists (select from outbox_events e where e.task_id = $1 and e.published_at is null and e.type = 'items.queued'
                        and (i.position between e.first_position and e.last_position or i.position = any(e.positions))))
insert into outbox_events (type, queue, workspace_id, priority, task_id, round, positions, item_count, next_attempt_at)
select 'items.queued', t.type, t.workspace_id, t.priority, t.id, t.round, array_agg(l.position order by l.position), count(*),
       greatest(clock_timestamp(), max(l.next_attempt_at))
  from lost l, media_tasks t where t.id = $1 and t.finished_at is null
 group by t.id
returning item_count
