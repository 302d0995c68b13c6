-- $1 workspace, $2 album
select * from albums where workspace_id = $1 and id = $2 and deleted_at is null
