-- What may be served of some albums, as far as it has changed: for each, its state, and every photo that changed after the number
-- seen, with its variants while it is published. The limits, which are never met, keep the planner to the indexes: left alone it reads
-- whole albums, or the whole table of variants. $1 albums, $2 the number of each that was seen (0: all that is published)
select a.id as album_id, a.workspace_id, a.originals_shared, a.last_seq, p.id as photo_id,
       v.file_name, v.storage_key, v.size_bytes, v.sha256, v.content_type
  from unnest($1::uuid[], $2::bigint[]) u(album_id, seen)
  join albums a on a.id = u.album_id and a.deleted_at is null
  left join lateral (
    select c.id, c.visibility = 'published' and c.deleted_at is null as visible
      from photos c
     where c.album_id = a.id and c.last_seq > u.seen and (u.seen > 0 or (c.visibility = 'published' and c.deleted_at is null))
     order by c.last_seq limit 2147483647) p on true
  left join lateral (
    select w.* from photo_variants w where w.photo_id = p.id and p.visible limit 1000) v on true
