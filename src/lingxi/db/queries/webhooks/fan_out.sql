-- The events that somebody wants, a task of deliveries for each (none when all who want it are disabled), its items and its outbox event.
-- By event: $1 ids, $2 workspaces, $3 outbox ids, $4 types, $5 bodies, $6 tasks or null, $7 items. By delivery: $8 events, $9 endpoints,
-- $10 tasks or null, $11 positions or null. $12 queue, $13 attempts at most, $14 priority
with e as (
  insert into webhook_events (id, workspace_id, outbox_id, type, body)
  select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[])),
d as (
  insert into webhook_deliveries (event_id, endpoint_id, task_id, position)
  select * from unnest($8::uuid[], $9::uuid[], $10::uuid[], $11::int[])),
t as (
  insert into media_tasks (id, workspace_id, type, priority, max_attempts, total_items, queued_items)
  select u.task_id, u.workspace_id, $12, $14, $13, u.items, u.items
    from unnest($6::uuid[], $2::uuid[], $7::int[]) u(task_id, workspace_id, items) where u.task_id is not null),
i as (
  insert into media_task_items (task_id, position, input)
  select u.task_id, u.position, jsonb_build_object('endpointId', u.endpoint_id, 'eventId', u.event_id)
    from unnest($8::uuid[], $9::uuid[], $10::uuid[], $11::int[]) u(event_id, endpoint_id, task_id, position) where u.task_id is not null)
insert into outbox_events (type, queue, workspace_id, priority, task_id, round, first_position, last_position, item_count)
select 'items.queued', $12, u.workspace_id, $14, u.task_id, 1, 1, u.items, u.items
  from unnest($6::uuid[], $2::uuid[], $7::int[]) u(task_id, workspace_id, items) where u.task_id is not null
