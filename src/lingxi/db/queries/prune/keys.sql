-- Idempotency keys that have expired. $1 seconds that one is remembered, $2 at most
delete from idempotency_keys where (workspace_id, method, path, key) in (
  select workspace_id, method, path, key from idempotency_keys
   where created_at < clock_timestamp() - make_interval(secs => $1::float8)
   order by created_at limit $2::int for update skip locked)
