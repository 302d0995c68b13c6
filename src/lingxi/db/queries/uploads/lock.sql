-- $1 upload; after its album.
select * from uploads where id = $1 for update
