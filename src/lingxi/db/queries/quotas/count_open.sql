-- $1 workspace: its items that have not ended. Deliveries of webhooks are not its doing.
select coalesce(sum(queued_items + running_items + retrying_items), 0)::bigint from media_tasks
 where workspace_id = $1 and finished_at is null and type <> 'webhook:deliver'
