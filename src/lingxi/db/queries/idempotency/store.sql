-- $1 workspace, $2 method, $3 path, $4 key, $5 status, $6 headers, $7 body
update idempotency_keys set status = $5, headers = $6, body = $7 where workspace_id = $1 and method = $2 and path = $3 and key = $4
