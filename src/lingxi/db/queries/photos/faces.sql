-- $1 albums: the thumb of each one's first published photo, in the album's order.
select of.album_id, first.id as photo_id, v.file_name, v.width, v.height
  from unnest($1::uuid[]) as of (album_id)
  cross join lateral (
    select id from photos where album_id = of.album_id and deleted_at is null and visibility = 'published'
     order by sort_at, upload_number limit 1) as first
  join photo_variants v on v.photo_id = first.id and v.kind = 'thumb'
