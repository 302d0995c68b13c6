-- Is the work done? Canaries through the queues, and rounds of a few failed items before the rest.

-- ── canaries: a job without an item, which a worker answers here ─────────────────────────────────────────
-- A row a queue: the last one that was sent. It belongs to no workspace and is counted nowhere else.
create table canaries (
  queue              text primary key,
  number             bigint not null default 1,   -- of the last one; the job's id has it
  waiting_since      timestamptz,                 -- since the first one that was not answered was sent; null: answered, or withdrawn
  sent_at            timestamptz,                 -- the last one
  answered_at        timestamptz,
  answered_by        text,                        -- name and boot of the worker's process
  round_trip_seconds float8                       -- of the last one that was answered
);

-- What the last lines of an ended attempt's log said: a JSON array of texts; null: nothing.
alter table media_task_attempts add column log_lines jsonb;

-- ── a round of one failed item of each cause, and of the rest when that one succeeded ────────────────────
-- A row a cause. It is decided when the round of the canaries has ended, by whoever sees it first: the dispatcher, or the sweep.
create table retry_plans (
  task_id         uuid not null references media_tasks (id) on delete cascade,
  code            text not null,              -- the cause: the error's code
  round           int not null,               -- the canaries' round
  canary_position int not null,
  rest_items      int not null,               -- how many follow
  state           text not null default 'waiting',
  decided_at      timestamptz,
  constraint retry_plan_once primary key (task_id, code),
  constraint retry_plan_state_known check (state in (
    'waiting',      -- the canary has not ended
    'followed',     -- it succeeded: the rest is the next round, or a part of it
    'stopped',      -- it did not succeed: the rest stays failed
    'overtaken')),  -- somebody began another round meanwhile: there is nothing left to plan
  constraint retry_plan_decided_has_time check ((state = 'waiting') = (decided_at is null))
);
create index retry_plans_waiting on retry_plans (task_id) where state = 'waiting';

-- The next round of a task: these failed items, and only these. The caller holds the task's lock, and the task has ended.
create function begin_retry_round(p_task_id uuid, p_positions int[], p_chunk int) returns void language sql as $f$
  with v as materialized (select round, last_seq from media_tasks where id = p_task_id),
  mine as (
    select i.position, row_number() over (order by i.position) as n
      from media_task_items i where i.task_id = p_task_id and i.state = 'failed' and i.position = any(p_positions)),
  again as (
    update media_task_items i
       set state = 'queued', round = v.round + 1, attempt = 0, queued_at = clock_timestamp(), worker = null, started_at = null, finished_at = null,
           last_seq = v.last_seq + 1 + m.n, error_code = null, error_message = null, error_retryable = null
      from mine m, v where i.task_id = p_task_id and i.position = m.position returning i.position, m.n),
  counted as (select count(*)::int as n from again),
  rolled as (
    update media_tasks t
       set round = round + 1, cancel_requested_at = null, queued_items = c.n, failed_items = failed_items - c.n, next_position = 1,
           round_started_at = clock_timestamp(), finished_at = null, last_seq = last_seq + 1 + c.n
      from counted c where t.id = p_task_id returning t.*)
  insert into outbox_events (type, queue, workspace_id, priority, task_id, round, positions, item_count)
  select 'items.queued', r.type, r.workspace_id, r.priority, r.id, r.round, array_agg(a.position order by a.position), count(*)
    from again a, rolled r group by r.id, r.type, r.workspace_id, r.priority, r.round, (a.n - 1) / p_chunk
$f$;

-- retry-failed with a choice. p_codes: only items that failed with one of these (null: all). p_canary: first one of each cause.
-- Answers: queued, nothing_failed, nothing_chosen, not_ended, missing.
create function retry_failed_items(p_workspace_id uuid, p_task_id uuid, p_chunk int, p_codes text[], p_canary boolean) returns text
language plpgsql as $f$
declare v media_tasks; v_positions int[];
begin
  select * into v from media_tasks where id = p_task_id and workspace_id = p_workspace_id for no key update;
  if not found then return 'missing'; end if;
  if v.finished_at is null then return 'not_ended'; end if;
  if v.failed_items = 0 then return 'nothing_failed'; end if;
  delete from retry_plans where task_id = p_task_id;
  if p_canary then
    insert into retry_plans (task_id, code, round, canary_position, rest_items)
    select p_task_id, i.error_code, v.round + 1, min(i.position), count(*) - 1
      from media_task_items i
     where i.task_id = p_task_id and i.state = 'failed' and (p_codes is null or i.error_code = any(p_codes))
     group by i.error_code;
    v_positions := array(select canary_position from retry_plans where task_id = p_task_id);
  else
    v_positions := array(select i.position from media_task_items i
                          where i.task_id = p_task_id and i.state = 'failed' and (p_codes is null or i.error_code = any(p_codes)));
  end if;
  if v_positions = '{}' then return 'nothing_chosen'; end if;
  perform begin_retry_round(p_task_id, v_positions, p_chunk);
  return 'queued';
end $f$;

-- Decides the plans whose canaries have ended: of these tasks, or of any (null), at most p_limit tasks. Answers what was decided.
create function advance_retry_plans(p_task_ids uuid[], p_limit int, p_chunk int)
returns table (task_id uuid, code text, state text, items int) language plpgsql as $f$
#variable_conflict use_column
declare v_ids uuid[]; v media_tasks; v_codes text[];
begin
  v_ids := array(
    select distinct p.task_id from retry_plans p join media_tasks t on t.id = p.task_id
     where p.state = 'waiting' and (p_task_ids is null or p.task_id = any(p_task_ids)) and (t.finished_at is not null or t.round > p.round)
     order by 1 limit p_limit);
  for v in select * from media_tasks where id = any(v_ids) order by id for no key update loop
    if v.finished_at is null and not exists (select from retry_plans p where p.task_id = v.id and p.state = 'waiting' and p.round < v.round) then
      continue;  -- somebody was here before
    end if;
    return query
    with decided as (
      update retry_plans p
         set decided_at = clock_timestamp(),
             state = case when p.round < v.round then 'overtaken'
                          when i.state = 'succeeded' then 'followed' else 'stopped' end
        from media_task_items i
       where p.task_id = v.id and p.state = 'waiting' and i.task_id = p.task_id and i.position = p.canary_position
      returning p.task_id, p.code, p.state, p.rest_items)
    select d.task_id, d.code, d.state, case when d.state = 'followed' then d.rest_items else 0 end from decided d order by d.code;
    v_codes := array(select p.code from retry_plans p where p.task_id = v.id and p.state = 'followed' and p.round = v.round);
    -- Those that the canaries' round left alone: one that failed in it is not tried again by itself.
    perform begin_retry_round(v.id, array_agg(i.position), p_chunk)
       from media_task_items i where i.task_id = v.id and i.state = 'failed' and i.error_code = any(v_codes) and i.round < v.round
     having count(*) > 0;
  end loop;
end $f$;
