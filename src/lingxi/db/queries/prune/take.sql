-- A task that is gone and of which rows may be left; locked.
select task_id from pruned_tasks order by pruned_at, task_id limit 1 for update skip locked
