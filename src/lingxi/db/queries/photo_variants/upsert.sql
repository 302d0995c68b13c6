-- $1 photo, $2 kinds, $3 generation, $4 storage keys, $5 file names, $6 widths, $7 heights, $8 sizes, $9 SHA-256s, $10 types
insert into photo_variants (photo_id, kind, generation, storage_key, file_name, width, height, size_bytes, sha256, content_type)
select $1, u.kind, $3, u.storage_key, u.file_name, u.width, u.height, u.size_bytes, u.sha256, u.content_type
  from unnest($2::text[], $4::text[], $5::text[], $6::int[], $7::int[], $8::bigint[], $9::bytea[], $10::text[])
    u(kind, storage_key, file_name, width, height, size_bytes, sha256, content_type)
on conflict on constraint variant_once do update
   set generation = excluded.generation, storage_key = excluded.storage_key, file_name = excluded.file_name, width = excluded.width,
       height = excluded.height, size_bytes = excluded.size_bytes, sha256 = excluded.sha256, content_type = excluded.content_type
