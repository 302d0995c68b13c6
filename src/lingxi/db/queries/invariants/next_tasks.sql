-- The next tasks after one, by id, and how many items they have.
select id, total_items from media_tasks where id > $1 order by id limit $2
