-- $1 tasks, or null for any that are due; $2 at most so many of them, $3 items an event
select task_id, code, state, items from advance_retry_plans($1::uuid[], $2, $3)
