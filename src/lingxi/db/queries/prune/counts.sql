-- What the next rounds would remove: seconds that each is kept (null: for ever): $1 tasks, $2 events, $3 webhooks, $4 audit,
-- $5 objects, $6 keys.
-- Items go with their tasks.
with old as materialized (
  select t.id, t.total_items from media_tasks t
   where t.finished_at < clock_timestamp() - make_interval(secs => $1::float8)
     and not exists (select from outbox_events e where e.task_id = t.id and e.published_at is null)
     and not exists (select from retry_plans p where p.task_id = t.id and p.state = 'waiting')),
busiest as materialized (
  select workspace_id from media_tasks where finished_at is null group by workspace_id having sum(total_items) > 100000),
aged as materialized (
  select workspace_id, name from objects where kept_from < clock_timestamp() - make_interval(secs => $5::float8)
     and workspace_id <> all (array(select workspace_id from busiest))),
busy as materialized (
  select t.id, t.workspace_id from media_tasks t where t.finished_at is null and t.workspace_id in (select workspace_id from aged)
  union select t.id, t.workspace_id from retry_plans p join media_tasks t on t.id = p.task_id where p.state = 'waiting'),
named as materialized (
  select b.workspace_id, normalize(s #>> '{}', nfc) as name
    from busy b join media_task_items i on i.task_id = b.id and i.state not in ('succeeded', 'cancelled')
   cross join lateral jsonb_path_query(i.input, '$.** ? (@.type() == "string")') s)
select (select count(*) from old) as tasks, (select coalesce(sum(total_items), 0)::bigint from old) as items,
       (select count(*) from outbox_events e
         where e.published_at < clock_timestamp() - make_interval(secs => $2::float8)
           and not exists (select from media_tasks t where t.id = e.task_id and t.finished_at is null)) as events,
       (select count(*) from webhook_events v
         where v.created_at < clock_timestamp() - make_interval(secs => $3::float8)
           and not exists (select from webhook_deliveries d join media_tasks t on t.id = d.task_id
                            where d.event_id = v.id and t.finished_at is null)) as webhooks,
       (select count(*) from audit_log where at < clock_timestamp() - make_interval(secs => $4::float8)) as audit,
       (select count(*) from (select workspace_id, name from aged except select workspace_id, name from named) unnamed) as objects,
       (select count(*) from idempotency_keys where created_at < clock_timestamp() - make_interval(secs => $6::float8)) as keys
