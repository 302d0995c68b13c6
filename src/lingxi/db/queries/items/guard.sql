-- Hold an item while its attempt still owns it: a sweep or another claim has to wait until this transaction ends.
-- $1 task id, $2 position, $3 fence. No row: superseded.
select true
  from media_task_items
 where task_id = $1 and position = $2 and attempt_id = $3 and state = 'running'
   for no key update
