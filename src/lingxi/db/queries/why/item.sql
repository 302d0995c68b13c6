-- All that says why an item waits or failed. $1 workspace, $2 task, $3 position; no row when the workspace has none like that.
-- `ahead`: items that wait in the same queue and were submitted before, with at least its priority; `ahead_own` those of its workspace.
select i.*, t.type, t.workspace_id, t.max_attempts, t.cancel_requested_at is not null as cancel_requested,
       coalesce(i.queued_at, t.created_at) as waits_since,
       extract(epoch from i.next_attempt_at - clock_timestamp())::float8 as due_in_seconds,
       e.id as event_id, e.published_at, e.last_error, e.error_detail,
       extract(epoch from e.next_attempt_at - clock_timestamp())::float8 as event_due_in_seconds,
       h.state as hold_state, h.reason as hold_reason, h.held_at, c.max_running, w.running, w.ahead + i.position - 1 as ahead, w.ahead_own + i.position - 1 as ahead_own
  from media_tasks t
  join media_task_items i on i.task_id = t.id
  left join workspace_caps c on c.workspace_id = t.workspace_id
  left join lateral (select * from outbox_events o
                      where o.task_id = t.id and o.type = 'items.queued' and o.round = t.round
                        and (i.position between o.first_position and o.last_position or i.position = any(o.positions))
                      order by o.id desc limit 1) e on true
  left join queue_holds h on h.queue = t.type and (h.state = 'paused' or e.published_at is null)
  cross join lateral (
    select coalesce(sum(a.queued_items + a.retrying_items) filter (where a.before), 0)::bigint as ahead,
           coalesce(sum(a.queued_items + a.retrying_items) filter (where a.before and a.workspace_id = t.workspace_id), 0)::bigint as ahead_own,
           coalesce(sum(a.running_items) filter (where a.workspace_id = t.workspace_id), 0)::bigint as running
      from (select x.*, x.type = t.type and (x.priority, x.created_at, x.id) < (t.priority, t.created_at, t.id) as before
              from media_tasks x where x.finished_at is null) a) w
 where t.workspace_id = $1 and t.id = $2 and i.position = $3
