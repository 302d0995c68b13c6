-- $1 workspace, $2 requests a minute, $3 open items, $4 stored bytes: null is the deployment's, 0 is none. What was counted is counted anew.
insert into workspace_quotas (workspace_id, requests_per_minute, open_items, stored_bytes) values ($1, $2, $3, $4)
on conflict (workspace_id) do update
   set requests_per_minute = excluded.requests_per_minute, open_items = excluded.open_items, stored_bytes = excluded.stored_bytes,
       open_counted_at = null, stored_counted_at = null, changed_at = clock_timestamp()
