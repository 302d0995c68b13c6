-- The newest tasks, and how many items they have. $1 so many
select id, total_items from media_tasks order by id desc limit $1
