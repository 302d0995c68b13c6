-- $1 workspace, $2 and $3 creation time and id of the last one seen (null: from the newest), $4 limit
select * from albums
 where workspace_id = $1 and deleted_at is null and ($2::timestamptz is null or (created_at, id) < ($2, $3::uuid))
 order by created_at desc, id desc limit $4
