-- $1 task ids, $2 and $3 the number and the position up to which each task's items were seen, $4 limit for all.
select i.task_id, i.position, i.ref, i.state, i.round, i.attempt, i.input, i.result, i.error_code, i.error_message, i.error_retryable,
       coalesce(i.queued_at, t.created_at) as queued_at, i.started_at, i.finished_at, i.last_seq
  from unnest($1::uuid[], $2::bigint[], $3::int[]) u(id, seq, position)
  join media_tasks t on t.id = u.id
  join media_task_items i on i.task_id = u.id and (i.last_seq, i.position) > (u.seq, u.position)
 order by i.task_id, i.last_seq, i.position limit $4
