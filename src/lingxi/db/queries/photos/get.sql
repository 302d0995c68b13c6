-- $1 album, $2 photo
select * from photos where album_id = $1 and id = $2 and deleted_at is null
