-- An event, dead or not. $1 id, $2 workspace (null: of any)
select id, type, workspace_id, task_id from outbox_events where id = $1 and ($2::uuid is null or workspace_id = $2)
