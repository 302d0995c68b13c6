-- $1 album, $2 share link
update share_links set revoked_at = coalesce(revoked_at, clock_timestamp()) where album_id = $1 and id = $2
returning id, album_id, created_at, expires_at, revoked_at
