-- Each item that waits is named by an event of its round, written when it began to wait or later: it is in the outbox, or its job was sent (and the sweep finds a lost job).
select i.task_id::text || '/' || i.position as subject, format('%s in round %s, and no event names it', i.state, i.round) as detail
  from media_tasks t join media_task_items i on i.task_id = t.id
 where t.id = any($1::uuid[]) and t.finished_at is null and i.state in ('queued', 'retrying')
   and not exists (
     select from outbox_events e
      where e.task_id = i.task_id and e.type = 'items.queued' and e.round = i.round and e.created_at >= coalesce(i.queued_at, t.created_at)
        and (i.position between e.first_position and e.last_position or i.position = any(e.positions)))
