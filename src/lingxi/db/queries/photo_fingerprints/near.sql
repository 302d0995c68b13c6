-- Photos of the album whose hashes are near, the nearest first. Each band's index is asked for the values that differ in at most one
-- bit; the inner limits bound what an album of pictures that are all alike costs. $1 album, $2 photo, $3 perceptual and $4 difference
-- hash, $5 … $8 values of the bands, $9 and $10 greatest distances of the two hashes, $11 limit
select f.photo_id, min(f.distance) as distance
  from ((select photo_id, bit_count((perceptual_hash # $3)::bit(64))::int as distance from photo_fingerprints
          where album_id = $1 and band_0 = any($5::int[]) and photo_id <> $2
            and bit_count((perceptual_hash # $3)::bit(64)) <= $9 and bit_count((difference_hash # $4)::bit(64)) <= $10 limit 64)
        union all
        (select photo_id, bit_count((perceptual_hash # $3)::bit(64))::int from photo_fingerprints
          where album_id = $1 and band_1 = any($6::int[]) and photo_id <> $2
            and bit_count((perceptual_hash # $3)::bit(64)) <= $9 and bit_count((difference_hash # $4)::bit(64)) <= $10 limit 64)
        union all
        (select photo_id, bit_count((perceptual_hash # $3)::bit(64))::int from photo_fingerprints
          where album_id = $1 and band_2 = any($7::int[]) and photo_id <> $2
            and bit_count((perceptual_hash # $3)::bit(64)) <= $9 and bit_count((difference_hash # $4)::bit(64)) <= $10 limit 64)
        union all
        (select photo_id, bit_count((perceptual_hash # $3)::bit(64))::int from photo_fingerprints
          where album_id = $1 and band_3 = any($8::int[]) and photo_id <> $2
            and bit_count((perceptual_hash # $3)::bit(64)) <= $9 and bit_count((difference_hash # $4)::bit(64)) <= $10 limit 64)) f
  join photos p on p.id = f.photo_id and p.deleted_at is null and p.visibility <> 'recalled'
 group by f.photo_id order by distance, f.photo_id limit $11
