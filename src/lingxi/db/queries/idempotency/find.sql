-- $1 workspace, $2 method, $3 path, $4 key, $5 seconds that a key lives
select body_sha256, status, headers, body from idempotency_keys
 where workspace_id = $1 and method = $2 and path = $3 and key = $4 and created_at >= now() - make_interval(secs => $5)
