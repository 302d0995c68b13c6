-- The album's order: capture time or else upload, then upload number. $1 album, $2 and $3 sort time and upload number of the last
-- one seen (null: from the first), $4 limit, $5 only what share links may see
select * from photos
 where album_id = $1 and deleted_at is null and (not $5 or visibility = 'published')
   and ($2::timestamptz is null or (sort_at, upload_number) > ($2, $3::int))
 order by sort_at, upload_number limit $4
