-- $1 id, $2 workspace, $3 album, $4 upload number, $5 file name, $6 storage key, $7 size, $8 SHA-256, $9 type, $10 feed number, $11 timeline
insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256, content_type, last_seq, timeline)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning *
