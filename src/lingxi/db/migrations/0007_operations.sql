-- Steering by hand: dead letters, pauses, workers, workspaces; quotas; retention.

-- ── dead letters: giving one up for good ────────────────────────────────────────────────────────────────
-- Its items that still wait end as failed (dispatch_failed), so that nothing hangs; a later event that names an item too is the one
-- that it waits for. A discarded event counts as published, with last_error = 'discarded'.
-- Answers: discarded, not_dead (sent again or discarded meanwhile), missing. p_workspace_id null: of any workspace.
create function discard_event(p_id bigint, p_workspace_id uuid) returns text language plpgsql as $f$
declare e outbox_events; v media_tasks;
begin
  select * into e from outbox_events where id = p_id and (p_workspace_id is null or workspace_id = p_workspace_id);
  if not found then return 'missing'; end if;
  if e.task_id is not null then select * into v from media_tasks where id = e.task_id for no key update; end if;
  update outbox_events set published_at = clock_timestamp(), last_error = 'discarded'
   where id = p_id and published_at is null and last_error = 'dead_lettered';
  if not found then return 'not_dead'; end if;
  if e.type <> 'items.queued' or v.id is null then return 'discarded'; end if;
  with mine as (
    select i.position, i.state as was, v.last_seq + row_number() over (order by i.position) as seq
      from media_task_items i
     where i.task_id = e.task_id and i.state in ('queued', 'retrying') and i.round = e.round
       and (i.position between e.first_position and e.last_position or i.position = any(e.positions))
       and not exists (select from outbox_events o
                        where o.task_id = e.task_id and o.type = 'items.queued' and o.round = e.round and o.id > e.id
                          and (i.position between o.first_position and o.last_position or i.position = any(o.positions)))),
  gone as (
    update media_task_items i set state = 'failed', finished_at = clock_timestamp(), next_attempt_at = null, last_seq = m.seq,
           error_code = 'dispatch_failed', error_message = 'It could not be handed to a worker.', error_retryable = true
      from mine m where i.task_id = e.task_id and i.position = m.position returning m.was),
  s as (select count(*)::int as n, count(*) filter (where was = 'queued')::int as q from gone),
  rolled as (
    update media_tasks t
       set failed_items = failed_items + s.n, queued_items = queued_items - s.q, retrying_items = retrying_items - (s.n - s.q),
           last_seq = last_seq + s.n + case when queued_items + running_items + retrying_items = s.n then 1 else 0 end,
           finished_at = case when queued_items + running_items + retrying_items = s.n then clock_timestamp() end
      from s where t.id = e.task_id and s.n > 0 returning t.*)
  insert into outbox_events (type, workspace_id, priority, task_id, round, payload)
  select 'task.ended', r.workspace_id, r.priority, r.id, r.round,
         jsonb_build_object('v', 1, 'taskId', r.id, 'type', r.type, 'status', r.status, 'round', r.round)
    from rolled r where r.finished_at is not null;
  return 'discarded';
end $f$;

-- ── queues that are held by hand ────────────────────────────────────────────────────────────────────────
-- paused: nothing of it is sent, taken or claimed. draining: nothing is sent; what was sent is finished, and then it is paused.
create table queue_holds (
  queue   text primary key,                  -- logical name
  state   text not null,
  reason  text,                              -- for people
  held_at timestamptz not null default clock_timestamp(),
  constraint queue_hold_known check (state in ('paused', 'draining')),
  constraint queue_hold_reason_short check (length(reason) <= 200)
);

-- ── worker processes ────────────────────────────────────────────────────────────────────────────────────
-- Each tells of itself at its heartbeat, reads in the same statement what is wanted of it, and removes its row when it stops in order.
create table workers (
  boot       text primary key,               -- eight hex digits of this start
  name       text not null,                  -- host:pid:boot, as it stands on attempts
  host       text not null,
  pid        int not null,
  version    text not null,
  queues     text[] not null,
  running    int not null default 0,         -- items and photos that it works on
  state      text not null default 'working',
  wanted     text,                           -- null: to work
  wanted_at  timestamptz,
  started_at timestamptz not null default clock_timestamp(),
  seen_at    timestamptz not null default clock_timestamp(),
  constraint worker_state_known check (state in ('working', 'quiet', 'stopping')),
  constraint worker_wanted_known check (wanted in ('quiet', 'stop'))
);

-- ── workspaces that are shut ────────────────────────────────────────────────────────────────────────────
-- Nobody gets in: its tokens and share links are not valid. What was accepted is finished.
alter table workspaces add column disabled_at timestamptz;

-- ── quotas ──────────────────────────────────────────────────────────────────────────────────────────────
-- A limit that is null is the deployment's own (the settings); 0 is none. open_bound and stored_bound are never below the truth while
-- they are young: what is added is added here too, under the row's lock; what ends is not taken off. They are counted anew when they reach the limit.
-- The row's lock comes before those of albums and tasks.
create table workspace_quotas (
  workspace_id        uuid primary key references workspaces (id),
  requests_per_minute int,
  open_items          bigint,
  stored_bytes        bigint,
  open_bound          bigint,
  open_counted_at     timestamptz,
  stored_bound        bigint,
  stored_counted_at   timestamptz,
  changed_at          timestamptz not null default clock_timestamp(),
  constraint quota_not_negative check (least(requests_per_minute, open_items, stored_bytes) >= 0)
);

-- ── retention ───────────────────────────────────────────────────────────────────────────────────────────
-- A task that is pruned goes first, with its number of items known to nobody any more; its rows follow in small steps.
create table pruned_tasks (
  task_id   uuid primary key,
  pruned_at timestamptz not null default clock_timestamp()
);
create index webhook_deliveries_of_task on webhook_deliveries (task_id) where task_id is not null;
