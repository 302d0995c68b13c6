-- $1 type, $2 task ids, $3 positions, $4 worker, $5 lease, $6 time limit, $7 how many suspects (null: all): claims those that wait and are due; the rest is not answered.
select task_id, pos as position, attempt_id, attempt, round, max_attempts, workspace_id, ref, input, deadline_at, cancel_requested, suspect
  -- of a queue that is paused by hand none: `offset 0` keeps the question before the claim
  from (select $1::text as type where not exists (select from queue_holds h where h.queue = $1::text and h.state = 'paused') offset 0) open,
       lateral claim_items(open.type, $2, $3, $4, $5, $6, $7)
