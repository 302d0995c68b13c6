-- $1 workspace, $2 album, $3 name or null, $4 originals shared or null: takes a number.
update albums set name = coalesce($3, name), originals_shared = coalesce($4, originals_shared), last_seq = last_seq + 1, changed_seq = last_seq + 1
 where workspace_id = $1 and id = $2 and deleted_at is null returning *
