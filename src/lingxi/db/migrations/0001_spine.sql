-- The spine: workspaces and tokens, tasks with their items and attempts, the outbox, idempotency, audit, objects.
--
-- Rule 1: every writer of items locks the items' task rows first, in id order, and then reads: a statement inside a VOLATILE
--         function sees all that was committed before the lock was got.
-- Rule 2: no index on items names a column that the hot path changes (state, last_seq, lease, fence), so updates may be HOT.
--         Live items are found through live tasks.
-- Rule 3: time is this server's time. `clock_timestamp()` for what happens now, never a client's clock.

create table workspaces (
  id         uuid primary key,
  name       text not null,
  created_at timestamptz not null default now(),
  constraint workspace_name_once unique (name),
  constraint workspace_name_sane check (length(name) between 1 and 100)
);

create table tokens (
  id           uuid primary key,
  workspace_id uuid references workspaces (id),
  role         text not null,
  name         text not null,
  secret_hash  bytea not null,               -- SHA-256 of the whole token: it carries 256 random bits
  created_at   timestamptz not null default now(),
  expires_at   timestamptz,
  revoked_at   timestamptz,
  constraint token_secret_once unique (secret_hash),
  constraint token_role_known check (role in ('viewer', 'editor', 'admin', 'operator')),
  constraint token_operator_has_no_workspace check ((role = 'operator') = (workspace_id is null)),
  constraint token_name_sane check (length(name) between 1 and 100)
);
create index tokens_of_workspace on tokens (workspace_id, created_at);


create table media_tasks (
  id                  uuid primary key,       -- its last 16 bits are 0: an item's id has its position there
  workspace_id        uuid not null references workspaces (id),
  type                text not null,
  priority            smallint not null default 1,
  metadata            jsonb,
  max_attempts        smallint not null default 3,
  round               int not null default 1,
  cancel_requested_at timestamptz,            -- in this round
  total_items         int not null,
  queued_items        int not null,
  running_items       int not null default 0,
  retrying_items      int not null default 0,
  succeeded_items     int not null default 0,
  failed_items        int not null default 0,
  cancelled_items     int not null default 0,
  status              text not null generated always as (
    case
      when queued_items + running_items + retrying_items > 0 then
        case when cancel_requested_at is not null then 'cancelling' when queued_items = total_items then 'queued' else 'running' end
      when succeeded_items = total_items then 'succeeded'
      when cancelled_items > 0 then 'cancelled'
      when failed_items = total_items then 'failed'
      else 'partially_failed' end) stored,
  last_seq            bigint not null default 1,   -- dense, taken under this row's lock; 1 = created
  next_position       int not null default 1,      -- where a claim straight from this table goes on (not used by job)
  created_at          timestamptz not null default now(),
  round_started_at    timestamptz not null default now(),
  started_at          timestamptz,
  finished_at         timestamptz,
  constraint task_counters_not_negative check (least(queued_items, running_items, retrying_items, succeeded_items, failed_items, cancelled_items) >= 0),
  constraint task_counters_add_up check (total_items = queued_items + running_items + retrying_items + succeeded_items + failed_items + cancelled_items),
  constraint task_size check (total_items between 1 and 10000),
  constraint task_final_has_time check ((finished_at is not null) = (queued_items + running_items + retrying_items = 0)),
  constraint task_priority_known check (priority in (0, 1, 2)),
  constraint task_id_leaves_room check (substring(uuid_send(id) from 15 for 2) = '\x0000')
) with (fillfactor = 50);                     -- the hottest rows: two updates a batch must find room on their page
create index media_tasks_live on media_tasks (type, priority, created_at, id) where finished_at is null;
create index media_tasks_listing on media_tasks (workspace_id, created_at desc, id desc);
create index media_tasks_finished on media_tasks (finished_at) where finished_at is not null;

create table media_task_items (
  task_id          uuid not null,             -- no foreign key: its trigger doubles the time of a submit, and items only come with their task
  position         int not null,              -- 1 … 10,000
  ref              text,                      -- unique in the task: the submit checks it, nothing else writes it
  input            jsonb not null,
  state            text not null default 'queued',
  round            int not null default 1,    -- of its current or last attempt
  attempt          int not null default 0,    -- counted anew in each round
  attempt_id       bigint,                    -- the fence: who finishes must own it. Kept after the end: a repeated finish is known by it
  worker           text,                      -- name and boot of the process
  lease_expires_at timestamptz,
  deadline_at      timestamptz,               -- no lease is renewed past it
  queued_at        timestamptz,               -- null: when the task was created
  next_attempt_at  timestamptz,
  started_at       timestamptz,
  finished_at      timestamptz,
  last_seq         bigint not null default 1,
  result           jsonb,
  error_code       text,
  error_message    text,
  error_retryable  boolean,
  constraint item_once primary key (task_id, position),
  constraint item_state_known check (state in ('queued', 'running', 'retrying', 'succeeded', 'failed', 'cancelled')),
  constraint item_running_has_lease check ((state = 'running') = (lease_expires_at is not null)),
  constraint item_running_has_fence check (state <> 'running' or (attempt_id is not null and attempt > 0)),
  constraint item_final_has_time check ((finished_at is not null) = (state in ('succeeded', 'failed', 'cancelled'))),
  constraint item_retrying_has_time check (state <> 'retrying' or next_attempt_at is not null),
  constraint item_failed_has_code check (state <> 'failed' or error_code is not null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);

-- The current (or last) attempt is in the item's own columns, so an item cannot have two live ones. Here are the ended ones
-- that did not succeed, and every attempt of earlier rounds.
create sequence attempt_ids cache 100;
create table media_task_attempts (
  id              bigint primary key,         -- the fence that it had
  task_id         uuid not null,
  position        int not null,
  round           int not null,
  number          int not null,
  worker          text,
  started_at      timestamptz not null,
  finished_at     timestamptz not null,
  outcome         text not null,
  error_code      text,
  error_message   text,
  error_retryable boolean,
  constraint attempt_outcome_known check (outcome in ('succeeded', 'failed', 'retrying', 'released', 'lost'))
);
create index media_task_attempts_of_item on media_task_attempts (task_id, position);

create table outbox_events (
  id              bigint primary key generated always as identity,
  type            text not null,
  queue           text,                       -- logical name, for items.queued
  workspace_id    uuid,
  priority        smallint not null default 1,
  task_id         uuid,
  round           int,
  first_position  int,                        -- items.queued: a range …
  last_position   int,
  positions       int[],                      -- … or these
  item_count      int not null default 0,
  payload         jsonb not null default '{"v": 1}',
  attempts        int not null default 0,
  next_attempt_at timestamptz not null default now(),
  published_at    timestamptz,
  last_error      text,
  error_detail    text,
  created_at      timestamptz not null default clock_timestamp(),
  constraint event_items_named check (type <> 'items.queued' or (queue is not null and task_id is not null and item_count > 0
    and (first_position is null) = (last_position is null) and (first_position is null) <> (positions is null)))
);
create index outbox_events_due on outbox_events (priority, next_attempt_at, id) where published_at is null and last_error is distinct from 'dead_lettered';
create index outbox_events_dead on outbox_events (id) where published_at is null and last_error = 'dead_lettered';
create index outbox_events_of_task on outbox_events (task_id, id) where task_id is not null;
create index outbox_events_published on outbox_events (published_at) where published_at is not null;

create table idempotency_keys (
  workspace_id uuid not null references workspaces (id),
  method       text not null,
  path         text not null,
  key          text not null,
  body_sha256  bytea not null,
  status       smallint,                      -- null only inside the transaction that does the work
  headers      jsonb,
  body         bytea,
  created_at   timestamptz not null default now(),
  constraint idempotency_key_once primary key (workspace_id, method, path, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

create table audit_log (
  id           bigint primary key generated always as identity,
  workspace_id uuid,
  actor        uuid,                          -- the token; null for the command line beside the database
  verb         text not null,
  target       text not null,
  request_id   text,
  at           timestamptz not null default clock_timestamp()
);
create index audit_log_of_workspace on audit_log (workspace_id, id desc);
create index audit_log_age on audit_log (at);

create table objects (
  workspace_id uuid not null references workspaces (id),
  name         text not null,
  storage_key  text not null,
  size_bytes   bigint not null,
  sha256       bytea not null,
  content_type text not null,
  created_at   timestamptz not null default now(),
  constraint object_name_once primary key (workspace_id, name),
  constraint object_key_once unique (storage_key),
  constraint object_size_not_negative check (size_bytes >= 0)
);

-- Facts about this deployment: the fingerprint of its secret key, the marker that Redis must hold.
create table deployment (
  key        text primary key,
  value      text not null,
  changed_at timestamptz not null default now()
);

-- ── claim: a worker holds jobs for exactly these items ────────────────────────────────────────────────────
-- An item whose last attempt was lost is suspected of killing its worker: p_suspects says how many of those to claim (null: all).
create function claim_items(p_type text, p_task_ids uuid[], p_positions int[], p_worker text, p_lease interval, p_time_limit interval,
                            p_suspects int default null)
returns table (task_id uuid, pos int, attempt_id bigint, attempt int, round int, max_attempts int, workspace_id uuid, ref text, input jsonb,
               deadline_at timestamptz, cancel_requested boolean, suspect boolean)
language plpgsql as $f$
#variable_conflict use_column
begin
  perform from media_tasks where id = any(p_task_ids) order by id for no key update;
  return query
  with waiting as materialized (
    select i.task_id, i.position, i.state as was, t.last_seq, coalesce(i.error_code = 'worker_lost', false) as suspect
      from (select distinct a.task_id, a.position from unnest(p_task_ids, p_positions) a(task_id, position)) u
      join media_tasks t on t.id = u.task_id and t.type = p_type
      join media_task_items i on i.task_id = u.task_id and i.position = u.position
     where i.state = 'queued' or (i.state = 'retrying' and i.next_attempt_at <= clock_timestamp())),
  free as (
    select w.*, row_number() over (partition by w.suspect order by w.task_id, w.position) as nth from waiting w),
  mine as materialized (
    select f.*, f.last_seq + row_number() over (partition by f.task_id order by f.position) as seq
      from free f where p_suspects is null or not f.suspect or f.nth <= p_suspects),
  claimed as (
    update media_task_items i
       set state = 'running', attempt = i.attempt + 1, attempt_id = nextval('attempt_ids'), worker = p_worker, started_at = clock_timestamp(),
           lease_expires_at = clock_timestamp() + least(p_lease, p_time_limit), deadline_at = clock_timestamp() + p_time_limit, next_attempt_at = null,
           last_seq = m.seq, error_code = null, error_message = null, error_retryable = null
      from mine m where i.task_id = m.task_id and i.position = m.position
    returning i.task_id, i.position, i.attempt, i.attempt_id, i.round, i.ref, i.input, i.deadline_at, m.was, m.suspect),
  per_task as (select c.task_id, count(*)::int as n, count(*) filter (where was = 'queued')::int as q from claimed c group by c.task_id),
  rolled as (
    update media_tasks t set queued_items = queued_items - p.q, retrying_items = retrying_items - (p.n - p.q), running_items = running_items + p.n,
           last_seq = last_seq + p.n, started_at = coalesce(started_at, clock_timestamp())
      from per_task p where t.id = p.task_id
    returning t.id, t.max_attempts, t.workspace_id, t.cancel_requested_at)
  select c.task_id, c.position, c.attempt_id, c.attempt, c.round, r.max_attempts::int, r.workspace_id, c.ref, c.input, c.deadline_at, r.cancel_requested_at is not null,
         c.suspect
    from claimed c join rolled r on r.id = c.task_id;
end $f$;

-- ── finish: what became of each attempt ───────────────────────────────────────────────────────────────────
-- outcomes: succeeded, failed, retrying (after p_delays seconds), released (given back: uncharged), lost (its lease ran out: charged).
-- A cancel turns what would wait again into its end. An attempt that was superseded changes nothing.
-- Answers a verdict for each: accepted; already (the same finish was committed before: its answer was lost); superseded.
create function finish_items(p_task_ids uuid[], p_positions int[], p_fences bigint[], p_outcomes text[], p_results text[],
                             p_error_codes text[], p_error_messages text[], p_error_retryables boolean[], p_delays float8[],
                             p_only_expired boolean default false)
returns table (task_id uuid, pos int, fence bigint, verdict text, state text) language plpgsql as $f$
#variable_conflict use_column
begin
  perform from media_tasks where id = any(p_task_ids) order by id for no key update;
  return query
  with given as materialized (
    select distinct on (u.task_id, u.position, u.fence) u.*
      from unnest(p_task_ids, p_positions, p_fences, p_outcomes, p_results, p_error_codes, p_error_messages, p_error_retryables, p_delays)
      u(task_id, position, fence, outcome, result, code, message, retryable, delay)),
  found as materialized (
    select g.*, i.state as was, i.attempt, i.attempt_id, t.max_attempts, t.last_seq as task_seq,
           i.state = 'running' and i.attempt_id = g.fence and (not p_only_expired or i.lease_expires_at < clock_timestamp()) as owned,
           case
             when g.outcome in ('succeeded', 'failed') then g.outcome
             when g.outcome = 'released' then case when t.cancel_requested_at is not null then 'cancelled' else 'queued' end
             when t.cancel_requested_at is not null then 'failed'
             when g.outcome = 'lost' and i.attempt >= t.max_attempts then 'failed'
             else 'retrying' end as becomes
      from given g join media_task_items i on i.task_id = g.task_id and i.position = g.position join media_tasks t on t.id = g.task_id),
  mine as materialized (
    select f.*, task_seq + row_number() over (partition by f.task_id order by f.position) as seq
      from found f where owned),
  done as (
    update media_task_items i
       set state = m.becomes, last_seq = m.seq, lease_expires_at = null, deadline_at = null,
           attempt = case when m.outcome = 'released' then i.attempt - 1 else i.attempt end,
           queued_at = case when m.becomes in ('queued', 'retrying') then clock_timestamp() else i.queued_at end,
           next_attempt_at = case when m.becomes = 'retrying' then clock_timestamp() + make_interval(secs => coalesce(m.delay, 0)) end,
           finished_at = case when m.becomes in ('succeeded', 'failed', 'cancelled') then clock_timestamp() end,
           result = m.result::jsonb, error_code = m.code, error_message = m.message, error_retryable = m.retryable
      from mine m where i.task_id = m.task_id and i.position = m.position
    returning i.task_id, i.position, i.round, m.attempt, m.attempt_id, i.worker, i.started_at, m.outcome, i.state, m.code, m.message, m.retryable, i.next_attempt_at),
  history as (
    insert into media_task_attempts (id, task_id, position, round, number, worker, started_at, finished_at, outcome, error_code, error_message, error_retryable)
    select d.attempt_id, d.task_id, d.position, d.round, d.attempt, d.worker, d.started_at, clock_timestamp(),
           case when d.outcome = 'retrying' and d.state = 'failed' then 'failed' else d.outcome end, d.code, d.message, d.retryable
      from done d where d.state <> 'succeeded'),
  per_task as (
    select d.task_id, count(*)::int as n, count(*) filter (where d.state = 'succeeded')::int as s, count(*) filter (where d.state = 'failed')::int as f,
           count(*) filter (where d.state = 'retrying')::int as r, count(*) filter (where d.state = 'queued')::int as q,
           count(*) filter (where d.state = 'cancelled')::int as c
      from done d group by d.task_id),
  rolled as (
    update media_tasks t
       set running_items = running_items - p.n, succeeded_items = succeeded_items + p.s, failed_items = failed_items + p.f,
           retrying_items = retrying_items + p.r, queued_items = queued_items + p.q, cancelled_items = cancelled_items + p.c,
           -- the end of a round has a number of its own
           last_seq = last_seq + p.n + case when queued_items + running_items + retrying_items - p.n + p.r + p.q = 0 then 1 else 0 end,
           finished_at = case when queued_items + running_items + retrying_items - p.n + p.r + p.q = 0 then clock_timestamp() end
      from per_task p where t.id = p.task_id
    returning t.id, t.workspace_id, t.type, t.priority, t.round, t.status, t.finished_at),
  again as (  -- one event for those of a task that are due in the same second
    insert into outbox_events (type, queue, workspace_id, priority, task_id, round, positions, item_count, next_attempt_at)
    select 'items.queued', r.type, r.workspace_id, r.priority, r.id, r.round, array_agg(d.position order by d.position), count(*),
           coalesce(max(d.next_attempt_at), clock_timestamp())
      from done d join rolled r on r.id = d.task_id where d.state in ('queued', 'retrying')
     group by r.id, r.type, r.workspace_id, r.priority, r.round, date_trunc('second', d.next_attempt_at)),
  ended as (
    insert into outbox_events (type, workspace_id, priority, task_id, round, payload)
    select 'task.ended', r.workspace_id, r.priority, r.id, r.round,
           jsonb_build_object('v', 1, 'taskId', r.id, 'type', r.type, 'status', r.status, 'round', r.round)
      from rolled r where r.finished_at is not null)
  -- All that is owned was updated above: its task is locked. So the verdict needs no join with what was done.
  select f.task_id, f.position, f.fence,
         case when f.owned then 'accepted' when f.attempt_id = f.fence and f.was <> 'running' then 'already' else 'superseded' end,
         case when f.owned then f.becomes else f.was end
    from found f;
end $f$;

-- ── renew: a lease never passes the attempt's deadline ────────────────────────────────────────────────────
-- Locks no task, so it must not wait for an item either (SKIP LOCKED: who holds it is ending or claiming it).
-- Answers those that are still owned, renewed or not.
create function renew_leases(p_task_ids uuid[], p_positions int[], p_fences bigint[], p_lease interval)
returns table (task_id uuid, pos int, fence bigint) language sql as $f$
  with asked as materialized (select * from unnest(p_task_ids, p_positions, p_fences) u(task_id, position, fence)),
  mine as (
    select i.task_id, i.position from asked a join media_task_items i on i.task_id = a.task_id and i.position = a.position
     where i.attempt_id = a.fence and i.state = 'running' and i.deadline_at > clock_timestamp()
       for no key update of i skip locked),
  renewed as (
    update media_task_items i set lease_expires_at = least(clock_timestamp() + p_lease, i.deadline_at)
      from mine m where i.task_id = m.task_id and i.position = m.position)
  select i.task_id, i.position, i.attempt_id from asked a join media_task_items i on i.task_id = a.task_id and i.position = a.position
   where i.attempt_id = a.fence and i.state = 'running' and i.deadline_at > clock_timestamp()
$f$;

-- ── sweep: attempts whose lease ran out are used up; p_worker: end those of one dead process at once ────────
create function sweep_leases(p_limit int, p_worker text default null)
returns table (task_id uuid, pos int, fence bigint, verdict text, state text) language plpgsql as $f$
#variable_conflict use_column
declare v_tasks uuid[]; v_positions int[]; v_fences bigint[]; v_delays float8[]; n int;
begin
  select array_agg(x.task_id), array_agg(x.position), array_agg(x.attempt_id), array_agg(x.delay), count(*)
    into v_tasks, v_positions, v_fences, v_delays, n
    from (select i.task_id, i.position, i.attempt_id, 0::float8 as delay
            from media_tasks t join media_task_items i on i.task_id = t.id
           where t.finished_at is null and t.running_items > 0 and i.state = 'running'
             and case when p_worker is null then i.lease_expires_at < clock_timestamp() else i.worker = p_worker end
           limit p_limit) x;
  if n = 0 then return; end if;
  return query select * from finish_items(v_tasks, v_positions, v_fences, array_fill('lost'::text, array[n]), array_fill(null::text, array[n]),
    array_fill('worker_lost'::text, array[n]), array_fill('The worker that ran this was lost.'::text, array[n]), array_fill(true, array[n]),
    v_delays, p_worker is null);
end $f$;

-- ── cancel: what has not started ends as cancelled ───────────────────────────────────────────────────────
-- Answers: cancelled (asked now), already (asked before in this round, or ended as cancelled), ended (ended otherwise), missing.
create function cancel_task(p_workspace_id uuid, p_task_id uuid) returns text language plpgsql as $f$
declare v record;
begin
  select * into v from media_tasks where id = p_task_id and workspace_id = p_workspace_id for no key update;
  if not found then return 'missing'; end if;
  if v.finished_at is not null then return case when v.status = 'cancelled' then 'already' else 'ended' end; end if;
  if v.cancel_requested_at is not null then return 'already'; end if;
  with mine as (
    select i.position, i.state as was, v.last_seq + 1 + row_number() over (order by i.position) as seq
      from media_task_items i where i.task_id = p_task_id and i.state in ('queued', 'retrying')),
  gone as (
    update media_task_items i set state = 'cancelled', finished_at = clock_timestamp(), next_attempt_at = null, last_seq = m.seq,
           error_code = null, error_message = null, error_retryable = null
      from mine m where i.task_id = p_task_id and i.position = m.position returning m.was),
  s as (select count(*)::int as n, count(*) filter (where was = 'queued')::int as q from gone),
  rolled as (
    update media_tasks t
       set cancel_requested_at = clock_timestamp(), cancelled_items = cancelled_items + s.n, queued_items = queued_items - s.q,
           retrying_items = retrying_items - (s.n - s.q), last_seq = last_seq + 1 + s.n + case when running_items = 0 then 1 else 0 end,
           finished_at = case when running_items = 0 then clock_timestamp() end
      from s where t.id = p_task_id returning t.*)
  insert into outbox_events (type, workspace_id, priority, task_id, round, payload)
  select 'task.ended', r.workspace_id, r.priority, r.id, r.round,
         jsonb_build_object('v', 1, 'taskId', r.id, 'type', r.type, 'status', r.status, 'round', r.round)
    from rolled r where r.finished_at is not null;
  return 'cancelled';
end $f$;

-- ── retry-failed: a new round of the failed items, and only of these ─────────────────────────────────────
-- Answers: queued, nothing_failed, not_ended, missing.
create function retry_failed(p_workspace_id uuid, p_task_id uuid, p_chunk int) returns text language plpgsql as $f$
declare v record;
begin
  select * into v from media_tasks where id = p_task_id and workspace_id = p_workspace_id for no key update;
  if not found then return 'missing'; end if;
  if v.finished_at is null then return 'not_ended'; end if;
  if v.failed_items = 0 then return 'nothing_failed'; end if;
  with mine as (
    select i.position, row_number() over (order by i.position) as n from media_task_items i where i.task_id = p_task_id and i.state = 'failed'),
  again as (
    update media_task_items i
       set state = 'queued', round = v.round + 1, attempt = 0, queued_at = clock_timestamp(), worker = null, started_at = null, finished_at = null,
           last_seq = v.last_seq + 1 + m.n, error_code = null, error_message = null, error_retryable = null
      from mine m where i.task_id = p_task_id and i.position = m.position returning i.position, m.n),
  rolled as (
    update media_tasks t
       set round = round + 1, cancel_requested_at = null, queued_items = failed_items, failed_items = 0, next_position = 1, round_started_at = clock_timestamp(),
           finished_at = null, last_seq = last_seq + 1 + (select count(*) from again)
     where t.id = p_task_id returning t.*)
  insert into outbox_events (type, queue, workspace_id, priority, task_id, round, positions, item_count)
  select 'items.queued', r.type, r.workspace_id, r.priority, r.id, r.round, array_agg(a.position order by a.position), count(*)
    from again a, rolled r group by r.id, r.type, r.workspace_id, r.priority, r.round, (a.n - 1) / p_chunk;
  return 'queued';
end $f$;

-- The effect of a `demo:drill` item: one row, however often the item runs.
create table drill_effects (
  task_id    uuid not null,
  position   int not null,
  attempt_id bigint not null,
  made_at    timestamptz not null default clock_timestamp(),
  constraint drill_effect_once primary key (task_id, position)
);
