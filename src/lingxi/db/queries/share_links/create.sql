-- $1 id, $2 album, $3 SHA-256 of the secret, $4 seconds that it lives or null
insert into share_links (id, album_id, secret_hash, expires_at)
values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4::float8)) returning id, album_id, created_at, expires_at, revoked_at
