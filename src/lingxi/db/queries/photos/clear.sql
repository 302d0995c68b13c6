-- Photos that were deleted or recalled: all their files, of every generation, go to the trash, and their fingerprints go at once. How
-- many photos there were.
-- $1 photos at most, $2 seconds until their files are removed
with gone as (
  update photos set cleared_at = clock_timestamp()
   where id in (select id from photos where cleared_at is null and (deleted_at is not null or visibility = 'recalled')
                 order by id limit $1 for no key update skip locked)
  returning id, album_id, storage_key),
trashed as (
  insert into object_trash (storage_key, reason, remove_at)
  select key, 'removed', clock_timestamp() + make_interval(secs => $2)
    from gone, lateral (values (storage_key), (format('albums/%s/variants/%s/', album_id, id))) files (key)
  on conflict (storage_key) do nothing),
firsts as (
  delete from photo_pairs l using gone where l.first_id = gone.id),
seconds as (
  delete from photo_pairs l using gone where l.second_id = gone.id),
fingerprints as (
  delete from photo_fingerprints f using gone where f.photo_id = gone.id)
select count(*)::int from gone
