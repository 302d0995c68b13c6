-- Live tasks that have items waiting. $1 types, $2 ids after this, $3 limit
select id, type, round from media_tasks
 where finished_at is null and queued_items + retrying_items > 0 and type = any($1) and id > $2
 order by id limit $3
