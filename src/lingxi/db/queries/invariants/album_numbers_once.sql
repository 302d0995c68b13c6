-- No two changes of an album's photos have one number, and none is past the album's.
select a.id::text as subject, format('the album is at %s, its photos at %s with %s numbers for %s photos', a.last_seq, p.last, p.numbers, p.photos) as detail
  from albums a
  cross join lateral (select max(last_seq) as last, count(*) as photos, count(distinct last_seq) as numbers, max(upload_number) as uploads
                        from photos where album_id = a.id) p
 where a.id = any($1::uuid[]) and (p.numbers <> p.photos or p.last > a.last_seq or p.uploads > a.last_upload)
