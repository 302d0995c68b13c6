-- For each of the given tasks: do its rows tell one truth? Counted from the rows themselves, not from the counters.
-- An attempt that ended without success, and every attempt of an earlier round, has a row of its own; the last one is in its item.
with items as (
  select i.task_id,
         count(*)                                                                      as rows,
         count(distinct i.position)                                                    as positions,
         count(*) filter (where i.state not in ('succeeded', 'failed', 'cancelled'))   as unfinished,
         count(*) filter (where i.state = 'succeeded')                                 as succeeded,
         count(*) filter (where i.state = 'failed')                                    as failed,
         count(*) filter (where i.state = 'cancelled')                                 as cancelled,
         count(*) filter (where i.state = 'succeeded' and i.input @> '{"effect": true}'
                            and e.position is null)                                    as effects_missing,
         count(*) filter (where (i.state = 'succeeded')::int + coalesce(a.succeeded, 0) > 1) as succeeded_twice,
         count(e.position)                                                             as effects,
         coalesce(sum(a.ended), 0)::int + count(*) filter (where i.attempt > 0)        as attempts,
         coalesce(sum(a.lost), 0)::int                                                 as attempts_lost,
         count(distinct i.last_seq)                                                    as numbers,
         max(i.last_seq)                                                               as last_item_seq
    from media_task_items i
    left join drill_effects e on e.task_id = i.task_id and e.position = i.position
    left join lateral (
      select count(*) filter (where a.outcome = 'succeeded')     as succeeded,
             count(*) filter (where a.id is distinct from i.attempt_id) as ended,
             count(*) filter (where a.outcome = 'lost')          as lost
        from media_task_attempts a where a.task_id = i.task_id and a.position = i.position) a on true
   where i.task_id = any($1::uuid[])
   group by i.task_id),
events as (
  select o.task_id,
         count(*) filter (where o.type = 'task.ended')           as ends,
         count(*) filter (where o.published_at is null)          as unpublished
    from outbox_events o
   where o.task_id = any($1::uuid[])
   group by o.task_id)
select t.id, t.type, t.status, t.round, t.total_items as total, t.last_seq,
       i.rows, i.positions, i.unfinished, i.succeeded, i.failed, i.cancelled, i.effects_missing, i.succeeded_twice,
       i.effects, i.attempts, i.attempts_lost, i.numbers, i.last_item_seq,
       coalesce(e.ends, 0) as ends, coalesce(e.unpublished, 0) as unpublished,
       (t.succeeded_items, t.failed_items, t.cancelled_items, t.queued_items + t.running_items + t.retrying_items)
         = (i.succeeded, i.failed, i.cancelled, i.unfinished)    as counters_agree
  from media_tasks t join items i on i.task_id = t.id left join events e on e.task_id = t.id
 where t.id = any($1::uuid[])
 order by t.id
