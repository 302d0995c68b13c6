-- $1 workspace, whose row is locked, $2 its bytes as they were counted now, and those that are added
update workspace_quotas set stored_bound = $2, stored_counted_at = clock_timestamp() where workspace_id = $1
