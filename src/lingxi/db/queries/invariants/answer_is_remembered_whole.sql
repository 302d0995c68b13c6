-- A key that is remembered has its answer: both come with the transaction that did the work.
select format('%s %s %s', method, path, workspace_id) as subject, 'a key without its answer' as detail
  from idempotency_keys where status is null or body is null
