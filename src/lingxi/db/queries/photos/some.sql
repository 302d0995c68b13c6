-- $1 album, $2 photos
select * from photos where album_id = $1 and id = any($2) and deleted_at is null
