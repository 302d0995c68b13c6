-- $1 workspace, $2 token, $3 verb, $4 target, $5 request id
insert into audit_log (workspace_id, actor, verb, target, request_id) values ($1, $2, $3, $4, $5)
