-- $1 workspace: it has no cap any more.
delete from workspace_caps where workspace_id = $1
