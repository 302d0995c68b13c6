-- $1 album, $2 SHA-256: the photo of the same bytes that is not deleted.
select * from photos where album_id = $1 and sha256 = $2 and deleted_at is null
