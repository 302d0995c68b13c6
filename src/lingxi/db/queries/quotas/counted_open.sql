-- $1 workspace, whose row is locked, $2 its open items as they were counted now, and those that are added
update workspace_quotas set open_bound = $2, open_counted_at = clock_timestamp() where workspace_id = $1
