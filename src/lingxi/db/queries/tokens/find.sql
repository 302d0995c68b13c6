-- $1 SHA-256 of the token. Those of a workspace that is disabled do not hold.
select t.id, t.workspace_id, t.role, t.name from tokens t left join workspaces w on w.id = t.workspace_id
 where t.secret_hash = $1 and t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp()) and w.disabled_at is null
