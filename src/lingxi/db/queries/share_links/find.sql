-- $1 SHA-256 of the secret
select s.id, s.album_id, s.created_at, s.expires_at, s.revoked_at from share_links s join albums a on a.id = s.album_id join workspaces w on w.id = a.workspace_id
 where s.secret_hash = $1 and s.revoked_at is null and (s.expires_at is null or s.expires_at > clock_timestamp()) and a.deleted_at is null
   and w.disabled_at is null
