-- $1 workspace, $2 album
update albums set deleted_at = clock_timestamp(), last_seq = last_seq + 1
 where workspace_id = $1 and id = $2 and deleted_at is null returning *
