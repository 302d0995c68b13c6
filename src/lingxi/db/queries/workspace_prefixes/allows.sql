-- $1 workspace, $2 name of media: does it lie below a prefix of the workspace?
select exists (select from workspace_prefixes where workspace_id = $1 and starts_with($2, prefix))
