-- $1 workspace, $2 prefix
delete from workspace_prefixes where workspace_id = $1 and prefix = $2 returning prefix
