-- One row a photo: a later generation takes the place of an earlier one, and never the other way round. $1 photo, $2 album, $3 generation,
-- $4 and $5 hashes or null, $6 thumbhash, $7 sharpness, $8 width, $9 height, $10 camera or null, $11 camera's clock or null
insert into photo_fingerprints (photo_id, album_id, generation, perceptual_hash, difference_hash, thumb_hash, sharpness, width, height, camera, captured_local)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict (photo_id) do update
   set generation = excluded.generation, perceptual_hash = excluded.perceptual_hash, difference_hash = excluded.difference_hash,
       thumb_hash = excluded.thumb_hash, sharpness = excluded.sharpness, width = excluded.width, height = excluded.height,
       camera = excluded.camera, captured_local = excluded.captured_local, fingerprinted_at = now()
 where photo_fingerprints.generation <= excluded.generation
