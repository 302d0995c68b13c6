-- Workspaces that have a cap, and twice as many items on their way (in Redis, or running) as it lets run: their next events can wait,
-- so that jobs which nobody may claim do not go round in Redis.
select c.workspace_id from workspace_caps c
 where coalesce((select sum(t.queued_items + t.retrying_items + t.running_items) from media_tasks t
                  where t.workspace_id = c.workspace_id and t.finished_at is null), 0)
     - coalesce((select sum(e.item_count) from outbox_events e
                  where e.workspace_id = c.workspace_id and e.published_at is null and e.type = 'items.queued'), 0) >= 2 * c.max_running
