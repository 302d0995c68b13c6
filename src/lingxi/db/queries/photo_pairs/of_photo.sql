-- $1 photo: those that belong to it and are still there, the nearest first.
select p.id as photo_id, l.distance, l.is_near, l.is_burst
  from (select second_id as id, distance, is_near, is_burst from photo_pairs where first_id = $1
        union all
        select first_id, distance, is_near, is_burst from photo_pairs where second_id = $1) l
  join photos p on p.id = l.id and p.deleted_at is null and p.visibility <> 'recalled'
 order by l.distance, p.id
