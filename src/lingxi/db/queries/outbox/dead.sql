-- Dead letters, oldest first. $1 workspace (null: of all), $2 after this id or null, $3 this one alone or null, $4 limit
select id, type, queue, workspace_id, task_id, round, item_count, payload, attempts, error_detail,
       least(greatest(created_at, timestamptz 'epoch'), clock_timestamp()) as created_at
  from outbox_events
 where published_at is null and last_error = 'dead_lettered' and ($1::uuid is null or workspace_id = $1)
   and ($2::bigint is null or id > $2) and ($3::bigint is null or id = $3)
 order by id limit $4
