-- $1 type, $2 workspace, $3 priority, $4 payload, $5 the queue that its job goes to, or null
insert into outbox_events (type, workspace_id, priority, payload, queue) values ($1, $2, $3, $4::jsonb, $5)
