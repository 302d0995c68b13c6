-- What may be served of some albums, as far as it has changed: for each, its state, and every photo that changed after the number
-- seen, with its variants while it is published. $1 albums, $2 the number of each that was seen (0: all of it)
select a.id as album_id, a.workspace_id, a.originals_shared, a.last_seq, p.id as photo_id,
       v.file_name, v.storage_key, v.size_bytes, v.sha256, v.content_type
  from unnest($1::uuid[], $2::bigint[]) u(album_id, seen)
  join albums a on a.id = u.album_id and a.deleted_at is null
  left join photos p on p.album_id = a.id and p.last_seq > u.seen and (u.seen > 0 or (p.visibility = 'published' and p.deleted_at is null))
  left join photo_variants v on v.photo_id = p.id and p.visibility = 'published' and p.deleted_at is null
