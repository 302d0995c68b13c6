-- $1 token ids: those that may still be used. One statement for all open streams.
select t.id from tokens t left join workspaces w on w.id = t.workspace_id
 where t.id = any($1) and t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp()) and w.disabled_at is null
