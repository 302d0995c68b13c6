-- $1 album
select id, album_id, created_at, expires_at, revoked_at from share_links where album_id = $1 order by created_at, id
