-- Files of an album in its order. $1 album, $2 the browse picture instead of the original (null where there is none), $3 also what is
-- not published, $4 limit
select p.id, p.file_name, coalesce(p.captured_at, p.created_at) as taken_at,
       case when $2 then v.storage_key else p.storage_key end as storage_key,
       case when $2 then v.size_bytes else p.size_bytes end as size_bytes,
       case when $2 then v.sha256 else p.sha256 end as sha256
  from photos p left join photo_variants v on v.photo_id = p.id and v.kind = 'browse'
 where p.album_id = $1 and p.deleted_at is null and p.visibility <> 'recalled' and ($3 or p.visibility = 'published')
 order by p.sort_at, p.upload_number limit $4
