-- No two changes of a task have one number, none is past the task's own, and the end of a round has a number after all items'.
select t.id::text as subject, format('the task is at %s, its items at %s with %s numbers for %s changed items', t.last_seq, i.last, i.numbers, i.changed) as detail
  from media_tasks t
  cross join lateral (
    select max(last_seq) as last, count(*) filter (where last_seq > 1) as changed, count(distinct last_seq) filter (where last_seq > 1) as numbers
      from media_task_items where task_id = t.id) i
 where t.id = any($1::uuid[])
   and (i.numbers <> i.changed or i.last > t.last_seq or (t.finished_at is not null and i.last >= t.last_seq))
