-- $1 fence: did its lease run out? So it did not end in any way that it could have told.
select exists (select from media_task_attempts where id = $1 and outcome = 'lost')
