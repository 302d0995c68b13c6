-- $1 id, $2 workspace, $3 album or null, $4 name, $5 size in bytes, $6 SHA-256 or null, $7 storage key, $8 seconds until it expires
insert into direct_uploads (id, workspace_id, album_id, name, size_bytes, sha256, storage_key, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + make_interval(secs => $8))
returning *
