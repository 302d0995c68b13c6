-- $1 photo, $2 album, $3 the others, $4 distances, $5 which of them are near, $6 which are of its burst
insert into photo_pairs (first_id, second_id, album_id, distance, is_near, is_burst)
select least($1, o.id), greatest($1, o.id), $2, o.distance, o.is_near, o.is_burst
  from unnest($3::uuid[], $4::int[], $5::boolean[], $6::boolean[]) as o (id, distance, is_near, is_burst)
