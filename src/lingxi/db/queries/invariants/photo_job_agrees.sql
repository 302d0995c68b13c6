-- A photo that waits for its first variants has an open job; a job that is done or failed has a photo that says so.
select p.id::text as subject, format('%s, and its job is %s', p.processing_state, coalesce(j.state, 'missing')) as detail
  from photos p left join photo_jobs j on j.photo_id = p.id
 where p.album_id = any($1::uuid[]) and p.deleted_at is null and p.visibility <> 'recalled'
   and ((p.processing_state = 'uploaded' and coalesce(j.state, 'missing') not in ('pending', 'active'))
        or (j.state = 'done' and p.processing_state = 'uploaded') or (j.state = 'failed' and p.processing_state = 'uploaded'))
