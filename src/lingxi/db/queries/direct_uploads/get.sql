-- $1 workspace, $2 id
select * from direct_uploads where workspace_id = $1 and id = $2
