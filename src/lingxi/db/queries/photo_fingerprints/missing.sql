-- $1 album: its ready photos without a fingerprint of their latest pictures, in the album's order.
select p.id from photos p left join photo_fingerprints f on f.photo_id = p.id
 where p.album_id = $1 and p.processing_state = 'ready' and p.visibility <> 'recalled' and p.deleted_at is null
   and (f.photo_id is null or f.generation < p.published_generation)
 order by p.sort_at, p.upload_number
