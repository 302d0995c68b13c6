-- $1 token ids, $2 share links: those that may still be used. One statement for all open streams.
select id, false as is_share from tokens
 where id = any($1) and revoked_at is null and (expires_at is null or expires_at > clock_timestamp())
union all
select s.id, true from share_links s join albums a on a.id = s.album_id
 where s.id = any($2) and s.revoked_at is null and (s.expires_at is null or s.expires_at > clock_timestamp()) and a.deleted_at is null
