-- Pending rows that are due, oldest first. $1 limit, $2 and $3 creation time and photo of the last one seen (null: from the first)
select j.photo_id, p.album_id, j.created_at from photo_jobs j join photos p on p.id = j.photo_id
 where j.state = 'pending' and (j.next_retry_at is null or j.next_retry_at <= clock_timestamp())
   and not exists (select from queue_holds h where h.queue = 'photo:process')
   and ($2::timestamptz is null or (j.created_at, j.photo_id) > ($2, $3::uuid))
 order by j.created_at, j.photo_id limit $1
