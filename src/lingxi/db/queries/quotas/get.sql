-- $1 workspace: its own limits (null: the deployment's; 0: none). No row: it has none of its own.
select requests_per_minute, open_items, stored_bytes from workspace_quotas where workspace_id = $1
