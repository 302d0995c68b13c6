-- A later generation; what is published already at this or a later one stays. $1 … $7 as in publish.sql; the timeline stays that of the
-- first publication, and tells when the last one was.
update photos
   set published_generation = $2, width = $3, height = $4, captured_at = $5, sort_at = coalesce($5, created_at),
       entity_version = entity_version + 1, last_seq = $6,
       timeline = timeline || jsonb_build_object('republished', $7::jsonb -> 'committed')
 where id = $1 and processing_state = 'ready' and published_generation < $2 and visibility <> 'recalled' and deleted_at is null
returning *
