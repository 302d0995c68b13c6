-- Objects that were put long ago, the oldest first; their bytes go a day later. $1 seconds that one is kept, $2 at most. One that an open
-- item names stays, wherever in its input it stands; so does one of a retry that is planned. All open inputs of the workspaces are read
-- for that, so one with very many of them has to wait until they have ended.
with busiest as materialized (
  select workspace_id from media_tasks where finished_at is null group by workspace_id having sum(total_items) > 100000),
aged as materialized (
  select workspace_id, name from objects where kept_from < clock_timestamp() - make_interval(secs => $1::float8)
     and workspace_id <> all (array(select workspace_id from busiest))
   order by kept_from limit 4 * $2::int),
busy as materialized (
  select t.id, t.workspace_id from media_tasks t where t.finished_at is null and t.workspace_id in (select workspace_id from aged)
  union select t.id, t.workspace_id from retry_plans p join media_tasks t on t.id = p.task_id where p.state = 'waiting'),
named as materialized (
  select b.workspace_id, normalize(s #>> '{}', nfc) as name
    from busy b join media_task_items i on i.task_id = b.id and i.state not in ('succeeded', 'cancelled')
   cross join lateral jsonb_path_query(i.input, '$.** ? (@.type() == "string")') s),
unnamed as materialized ( -- `except` is linear however many items are open; an anti-join is not, on connections without hash joins
  select workspace_id, name from aged except select workspace_id, name from named),
old as (
  select o.workspace_id, o.name, o.storage_key from unnamed u join objects o on o.workspace_id = u.workspace_id and o.name = u.name
   where o.kept_from < clock_timestamp() - make_interval(secs => $1::float8)
   order by o.kept_from limit $2::int for update of o skip locked),
trashed as (
  insert into object_trash (storage_key, reason, remove_at)
  select storage_key, 'pruned', clock_timestamp() + interval '1 day' from old where storage_key not like 'media:%'
  on conflict (storage_key) do nothing)
delete from objects o using old where o.workspace_id = old.workspace_id and o.name = old.name
