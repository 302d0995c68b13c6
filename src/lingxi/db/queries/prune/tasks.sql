-- Tasks that ended long ago; their other rows follow (take, items, attempts, events, effects). $1 seconds that one is kept, $2 at most.
-- One whose event has not been sent (a dead letter is one, too), or whose retry is planned, stays.
with old as (
  select t.id from media_tasks t
   where t.finished_at < clock_timestamp() - make_interval(secs => $1::float8)
     and not exists (select from outbox_events e where e.task_id = t.id and e.published_at is null)
     and not exists (select from retry_plans p where p.task_id = t.id and p.state = 'waiting')
   order by t.finished_at limit $2::int for update of t skip locked),
marked as (insert into pruned_tasks (task_id) select id from old on conflict do nothing)
delete from media_tasks t using old where t.id = old.id
