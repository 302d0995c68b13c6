-- $1 workspace (null: all, operators' too)
select id, workspace_id, role, name, created_at, expires_at, revoked_at from tokens
 where $1::uuid is null or workspace_id = $1 order by created_at, id
