-- Photos of the album that the same camera took within some seconds and that look alike, the nearest in time first. $1 album, $2 photo,
-- $3 perceptual hash, $4 camera, $5 its clock, $6 seconds, $7 greatest distance, $8 limit
select f.photo_id, bit_count((f.perceptual_hash # $3)::bit(64))::int as distance
  from photo_fingerprints f join photos p on p.id = f.photo_id and p.deleted_at is null and p.visibility <> 'recalled'
 where f.album_id = $1 and f.camera = $4 and f.camera is not null and f.photo_id <> $2
   and f.captured_local between $5::timestamp - make_interval(secs => $6) and $5::timestamp + make_interval(secs => $6)
   and bit_count((f.perceptual_hash # $3)::bit(64)) <= $7
 order by abs(extract(epoch from f.captured_local - $5::timestamp)), f.photo_id limit $8
