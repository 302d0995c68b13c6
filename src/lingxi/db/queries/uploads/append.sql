-- $1 upload, $2 its writer, $3 offset, $4 size, $5 SHA-256, $6 storage key, $7 seconds until it expires: nothing when another one writes.
with grown as (
  update uploads set received_bytes = received_bytes + $4, expires_at = clock_timestamp() + make_interval(secs => $7)
   where id = $1 and writer = $2 and received_bytes = $3 and photo_id is null returning *
), part as (
  insert into upload_parts (upload_id, offset_bytes, size_bytes, sha256, storage_key) select id, $3, $4, $5, $6 from grown
)
select * from grown
