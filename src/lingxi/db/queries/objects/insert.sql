-- $1 workspace, $2 name, $3 storage key, $4 size in bytes, $5 SHA-256, $6 content type
-- Waits for another transaction that inserts the same name; no row: that one has won.
insert into objects (workspace_id, name, storage_key, size_bytes, sha256, content_type)
values ($1, $2, $3, $4, $5, $6)
on conflict on constraint object_name_once do nothing
returning name, storage_key, size_bytes, sha256, content_type, created_at
