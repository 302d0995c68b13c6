-- $1 photo, $2 visibility, $3 feed number. A photo that is shown for the first time gets its time of publication then.
update photos
   set visibility = $2, last_seq = $3, entity_version = entity_version + 1,
       published_at = case when $2 = 'published' then coalesce(published_at, clock_timestamp()) else published_at end
 where id = $1 returning *
