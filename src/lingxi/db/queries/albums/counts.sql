-- $1 albums: how many photos each has, by what viewers and photographers want to know.
select album_id, count(*) as photos, count(*) filter (where visibility = 'published') as published,
       count(*) filter (where processing_state = 'processing_failed') as failed,
       count(*) filter (where processing_state = 'uploaded') as processing
  from photos where album_id = any($1) and deleted_at is null group by album_id
