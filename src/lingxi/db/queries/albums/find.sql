-- $1 album, of whichever workspace
select * from albums where id = $1 and deleted_at is null
