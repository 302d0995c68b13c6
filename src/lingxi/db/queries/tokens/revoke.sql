-- $1 id, $2 workspace (null: any, for the command line)
update tokens set revoked_at = coalesce(revoked_at, clock_timestamp())
 where id = $1 and ($2::uuid is null or workspace_id = $2)
returning id, workspace_id, role, name, created_at, expires_at, revoked_at
