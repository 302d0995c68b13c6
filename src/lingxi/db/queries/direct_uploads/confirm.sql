-- $1 id, $2 photo or null
update direct_uploads set confirmed_at = coalesce(confirmed_at, clock_timestamp()), photo_id = $2 where id = $1
