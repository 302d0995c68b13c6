-- $1 workspace
select prefix from workspace_prefixes where workspace_id = $1 order by prefix
