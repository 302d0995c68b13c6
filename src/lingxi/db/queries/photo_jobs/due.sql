-- Pending rows that are due. $1 limit
select j.photo_id, p.album_id from photo_jobs j join photos p on p.id = j.photo_id
 where j.state = 'pending' and (j.next_retry_at is null or j.next_retry_at <= clock_timestamp())
   and j.created_at < clock_timestamp() - make_interval(secs => $2)
 order by j.created_at limit $1
