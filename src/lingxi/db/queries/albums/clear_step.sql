-- Delete some photos of a deleted album: their rows of variants go, their files go to the trash. How many there were.
-- $1 album, locked; $2 photos at most, $3 seconds until their files are removed
with gone as (
  update photos set deleted_at = clock_timestamp(), entity_version = entity_version + 1
   where id in (select id from photos where album_id = $1 and deleted_at is null order by sort_at, upload_number limit $2 for no key update)
  returning id, storage_key),
variants as (
  delete from photo_variants v using gone where v.photo_id = gone.id returning v.storage_key),
trashed as (
  insert into object_trash (storage_key, reason, remove_at)
  select storage_key, 'deleted', clock_timestamp() + make_interval(secs => $3)
    from (select storage_key from gone union all select storage_key from variants) files
  on conflict (storage_key) do nothing)
select count(*)::int from gone
