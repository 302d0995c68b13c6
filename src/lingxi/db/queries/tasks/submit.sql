-- One statement: the task, its items and its events are there together or not at all.
-- $1 id, $2 workspace, $3 type, $4 priority, $5 metadata, $6 max attempts, $7 refs, $8 inputs, $9 items an event
with t as (
  insert into media_tasks (id, workspace_id, type, priority, metadata, max_attempts, total_items, queued_items)
  values ($1, $2, $3, $4, $5, $6, cardinality($8::text[]), cardinality($8::text[])) returning *),
i as (
  insert into media_task_items (task_id, position, ref, input)
  select $1, u.position, u.ref, u.input::jsonb from unnest($7::text[], $8::text[]) with ordinality u(ref, input, position)),
e as (
  insert into outbox_events (type, queue, workspace_id, priority, task_id, round, first_position, last_position, item_count)
  select 'items.queued', $3, $2, $4, $1, 1, g, least(g + $9 - 1, cardinality($8::text[])),
         least(g + $9 - 1, cardinality($8::text[])) - g + 1
    from generate_series(1, cardinality($8::text[]), $9::int) g)
select * from t
