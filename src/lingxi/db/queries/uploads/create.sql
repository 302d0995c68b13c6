-- $1 id, $2 workspace, $3 album, $4 file name, $5 length, $6 metadata as it came, $7 seconds until it expires
insert into uploads (id, workspace_id, album_id, file_name, length_bytes, metadata, expires_at)
values ($1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7)) returning *
