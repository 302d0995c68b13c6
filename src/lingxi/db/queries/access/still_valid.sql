-- $1 token ids, $2 share links: those that may still be used. One statement for all open streams.
select t.id, false as is_share from tokens t left join workspaces w on w.id = t.workspace_id
 where t.id = any($1) and t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp()) and w.disabled_at is null
union all
select s.id, true from share_links s join albums a on a.id = s.album_id join workspaces w on w.id = a.workspace_id
 where s.id = any($2) and s.revoked_at is null and (s.expires_at is null or s.expires_at > clock_timestamp()) and a.deleted_at is null
   and w.disabled_at is null
