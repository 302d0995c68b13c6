-- $1 photo: what its processing needs to know, without a lock.
select p.*, a.deleted_at is not null as album_deleted from photos p join albums a on a.id = p.album_id where p.id = $1
