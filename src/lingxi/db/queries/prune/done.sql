-- $1 task: nothing is left of it.
delete from pruned_tasks where task_id = $1
