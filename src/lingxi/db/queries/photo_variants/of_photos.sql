-- $1 photos
select * from photo_variants where photo_id = any($1) order by photo_id, kind desc
