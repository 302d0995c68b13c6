-- $1 album: its pairs of photos that are both still there.
select l.first_id, l.second_id, l.is_near, l.is_burst
  from photo_pairs l
  join photos a on a.id = l.first_id and a.deleted_at is null and a.visibility <> 'recalled'
  join photos b on b.id = l.second_id and b.deleted_at is null and b.visibility <> 'recalled'
 where l.album_id = $1
