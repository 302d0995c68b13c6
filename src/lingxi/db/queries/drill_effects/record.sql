-- The effect of a drill, once an item: a repeat changes nothing. Answers whether this was the first time.
-- $1 task id, $2 position, $3 fence
insert into drill_effects (task_id, position, attempt_id)
values ($1, $2, $3)
on conflict (task_id, position) do nothing
returning true
