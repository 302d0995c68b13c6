-- The next albums after one, by id.
select id from albums where id > $1 order by id limit $2
