-- $1 SHA-256 of the token
select id, workspace_id, role, name from tokens
 where secret_hash = $1 and revoked_at is null and (expires_at is null or expires_at > clock_timestamp())
