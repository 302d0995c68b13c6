-- $1 workspace, $2 names
select name, storage_key, size_bytes, sha256, content_type, created_at from objects where workspace_id = $1 and name = any($2)
