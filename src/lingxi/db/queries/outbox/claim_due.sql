-- The events of one round, locked: by priority, then in turn by workspace, then by age. $1 how many, $2 queues that have room (of this
-- deployment), $3 versions up to this one are understood, $4 types that are understood; what a newer version wrote waits for it,
-- uncharged, and so does what is for a queue that only others have; what names no queue at all is charged. $5 queues, $6 workspaces:
-- items of these workspaces have to wait (for that queue, or, where it is null, for all).
-- Rows that another dispatcher holds are stepped over: the limit outside counts what was locked, the one inside only bounds the join.
-- Whoever writes a row by hand may write any time: one that no clock shows is bent here, or it would fail every round.
-- Ids commit out of order, so nothing here asks for "greater than the last".
with due as (
  select id, priority, row_number() over (partition by priority, workspace_id order by next_attempt_at, id) as turn, next_attempt_at
    from (select id, priority, workspace_id, next_attempt_at from outbox_events e
           where published_at is null and last_error is distinct from 'dead_lettered' and next_attempt_at <= clock_timestamp()
             and (queue is null or queue = any($2::text[]) or queue !~ '^[a-z0-9-]+:[a-z0-9-]+$') and type = any($4::text[])
             and case when jsonb_typeof(payload -> 'v') = 'number' then (payload -> 'v')::numeric else 1 end <= $3::int
             and (queue is null or not exists (select from unnest($5::text[], $6::uuid[]) h(queue, workspace_id)
                                                where h.workspace_id = e.workspace_id and (h.queue is null or h.queue = e.queue)))
           order by priority, next_attempt_at, id limit 2000) candidates)
select e.id, e.type, e.queue, e.workspace_id, e.priority, e.task_id, e.round, e.first_position, e.last_position, e.positions, e.item_count,
       e.payload, e.attempts, least(greatest(e.created_at, timestamptz 'epoch'), clock_timestamp()) as created_at,
       case when isfinite(e.next_attempt_at) then extract(epoch from clock_timestamp() - e.next_attempt_at)::float8 else 0 end as due_seconds
  from outbox_events e join (select * from due order by priority, turn, next_attempt_at, id limit $1::int * 10) d using (id)
 where e.published_at is null and e.last_error is distinct from 'dead_lettered' and e.next_attempt_at <= clock_timestamp()
 order by e.priority, d.turn, e.next_attempt_at, e.id
 limit $1::int
   for update of e skip locked
