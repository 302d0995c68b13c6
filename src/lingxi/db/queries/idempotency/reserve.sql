-- $1 workspace, $2 method, $3 path, $4 key, $5 SHA-256 of the body, $6 seconds that a key lives.
-- Waits for a transaction that holds the same key; answers a row only to the one that may do the work.
insert into idempotency_keys as k (workspace_id, method, path, key, body_sha256) values ($1, $2, $3, $4, $5)
on conflict on constraint idempotency_key_once do update
   set body_sha256 = excluded.body_sha256, status = null, headers = null, body = null, created_at = now()
 where k.created_at < now() - make_interval(secs => $6)
returning true
