-- Without deliveries of webhooks, by an index that has none of them.
-- $1 workspace, $2 and $3 created at and id of the last one seen (null: from the newest), $4 limit,
-- $5 statuses or null, $6 created at or after, $7 created before, $8 metadata of which it must contain one
select * from media_tasks
 where workspace_id = $1
   and ($2::timestamptz is null or (created_at, id) < ($2, $3::uuid))
   and ($5::text[] is null or status = any($5))
   and type <> 'webhook:deliver'
   and ($6::timestamptz is null or created_at >= $6)
   and ($7::timestamptz is null or created_at < $7)
   and ($8::jsonb[] is null or metadata @> any($8))
 order by created_at desc, id desc limit $4
