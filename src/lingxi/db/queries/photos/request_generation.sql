-- $1 album, locked: each of its ready photos takes its next generation. No number of the feed: nothing that anybody sees changes yet.
update photos set requested_generation = requested_generation + 1
 where album_id = $1 and processing_state = 'ready' and visibility <> 'recalled' and deleted_at is null
returning id, requested_generation, sort_at, upload_number
