-- $1 type, $2 workspace, $3 priority, $4 payload
insert into outbox_events (type, workspace_id, priority, payload) values ($1, $2, $3, $4::jsonb)
