-- Processors of users, fairness between workspaces, workers in other languages.

-- ── workers in other languages: a token of their own ────────────────────────────────────────────────────
-- It belongs to no workspace, since a queue is everybody's, and may claim, renew and finish items, and nothing else.
alter table tokens drop constraint token_role_known;
alter table tokens add constraint token_role_known check (role in ('viewer', 'editor', 'admin', 'operator', 'worker'));
alter table tokens drop constraint token_operator_has_no_workspace;
alter table tokens add constraint token_operator_has_no_workspace check ((role in ('operator', 'worker')) = (workspace_id is null));

-- ── caps: so many items of a workspace may run at once, over all queues and workers ─────────────────────
create table workspace_caps (
  workspace_id uuid primary key references workspaces (id),
  max_running  int not null,
  changed_at   timestamptz not null default clock_timestamp(),
  constraint cap_sane check (max_running between 1 and 1000000)
);
create index media_tasks_live_of_workspace on media_tasks (workspace_id) where finished_at is null;

-- Claims as before, and no more than the cap leaves room for. The rest of what was asked for is not answered: it waits.
create or replace function claim_items(p_type text, p_task_ids uuid[], p_positions int[], p_worker text, p_lease interval, p_time_limit interval,
                            p_suspects int default null)
returns table (task_id uuid, pos int, attempt_id bigint, attempt int, round int, max_attempts int, workspace_id uuid, ref text, input jsonb,
               deadline_at timestamptz, cancel_requested boolean, suspect boolean)
language plpgsql as $f$
#variable_conflict use_column
declare v_capped uuid[];
begin
  if exists (select from workspace_caps) then
    -- For a workspace with a cap one worker claims at a time: what runs is counted under the row's lock, which comes before the tasks'.
    perform from workspace_caps c where c.workspace_id in (select t.workspace_id from media_tasks t where t.id = any(p_task_ids))
      order by c.workspace_id for no key update;
    v_capped := array(select c.workspace_id from workspace_caps c
                       where c.workspace_id in (select t.workspace_id from media_tasks t where t.id = any(p_task_ids)));
  end if;
  perform from media_tasks where id = any(p_task_ids) order by id for no key update;
  return query
  with waiting as materialized (
    select i.task_id, i.position, i.state as was, t.last_seq, t.workspace_id, coalesce(i.error_code = 'worker_lost', false) as suspect
      from (select distinct a.task_id, a.position from unnest(p_task_ids, p_positions) a(task_id, position)) u
      join media_tasks t on t.id = u.task_id and t.type = p_type
      join media_task_items i on i.task_id = u.task_id and i.position = u.position
     where i.state = 'queued' or (i.state = 'retrying' and i.next_attempt_at <= clock_timestamp())),
  free as (
    select w.*, row_number() over (partition by w.suspect order by w.task_id, w.position) as nth from waiting w),
  admitted as (
    select f.*, row_number() over (partition by f.workspace_id order by f.task_id, f.position) as nth_of_workspace
      from free f where p_suspects is null or not f.suspect or f.nth <= p_suspects),
  room as materialized (
    select c.workspace_id, c.max_running - coalesce((select sum(t.running_items) from media_tasks t
                                                      where t.workspace_id = c.workspace_id and t.finished_at is null), 0) as slots
      from workspace_caps c where c.workspace_id = any(v_capped)),
  mine as materialized (
    select a.*, a.last_seq + row_number() over (partition by a.task_id order by a.position) as seq
      from admitted a left join room r on r.workspace_id = a.workspace_id where r.slots is null or a.nth_of_workspace <= r.slots),
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
