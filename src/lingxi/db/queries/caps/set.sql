-- $1 workspace, $2 how many of its items may run at once
insert into workspace_caps (workspace_id, max_running) values ($1, $2)
on conflict (workspace_id) do update set max_running = excluded.max_running, changed_at = clock_timestamp()
returning workspace_id, max_running, changed_at
