-- $1 SHA-256 of the secret. The link is gone afterwards; its token is answered when both still hold.
with used as (delete from sign_in_links where secret_hash = $1 returning token_id, expires_at)
select t.id, t.workspace_id, t.role, t.name from used join tokens t on t.id = used.token_id join workspaces w on w.id = t.workspace_id
 where used.expires_at > clock_timestamp() and t.revoked_at is null
   and (t.expires_at is null or t.expires_at > clock_timestamp()) and w.disabled_at is null
