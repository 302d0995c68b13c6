-- $1 task, $2 positions after this, $3 limit, $4 states or null
select i.task_id, i.position, i.ref, i.state, i.round, i.attempt, i.attempt_id, i.worker, i.input, i.result,
       i.error_code, i.error_message, i.error_retryable, coalesce(i.queued_at, t.created_at) as queued_at,
       i.started_at, i.finished_at, i.last_seq
  from media_task_items i join media_tasks t on t.id = i.task_id
 where i.task_id = $1 and i.position > $2 and ($4::text[] is null or i.state = any($4))
 order by i.position limit $3
