-- The first publication. $1 photo, $2 generation, $3 width, $4 height, $5 capture time or null, $6 feed number, $7 timeline to add
update photos
   set processing_state = 'ready', visibility = case when visibility = 'unpublished' then 'published' else visibility end,
       published_at = case when visibility = 'unpublished' then clock_timestamp() else published_at end,
       published_generation = $2, width = $3, height = $4, captured_at = $5, sort_at = coalesce($5, created_at),
       error_code = null, entity_version = entity_version + 1, last_seq = $6, timeline = timeline || $7::jsonb
 where id = $1 and processing_state in ('uploaded', 'processing_failed') and visibility <> 'recalled' and deleted_at is null
returning *
