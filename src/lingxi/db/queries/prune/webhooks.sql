-- What webhooks were told long ago, with its deliveries. $1 seconds that it is kept, $2 at most. What is still on its way stays.
delete from webhook_events where id in (
  select v.id from webhook_events v
   where v.created_at < clock_timestamp() - make_interval(secs => $1::float8)
     and not exists (select from webhook_deliveries d join media_tasks t on t.id = d.task_id
                      where d.event_id = v.id and t.finished_at is null)
   order by v.created_at limit $2::int for update of v skip locked)
