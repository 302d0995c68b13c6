-- $1 id, $2 workspace or null, $3 role, $4 name, $5 SHA-256, $6 seconds that it lives or null
insert into tokens (id, workspace_id, role, name, secret_hash, expires_at)
values ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6::float8))
returning id, workspace_id, role, name, created_at, expires_at, revoked_at
