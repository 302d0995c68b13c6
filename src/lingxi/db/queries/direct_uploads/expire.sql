-- Uploads whose address has expired for $1 seconds are forgotten; what arrived of them goes to the trash. $2 at most
with gone as (
  delete from direct_uploads where id in (
    select id from direct_uploads where expires_at < clock_timestamp() - make_interval(secs => $1) order by expires_at limit $2
       for update skip locked)
  returning storage_key),
trashed as (
  insert into object_trash (storage_key, reason, remove_at) select storage_key, 'expired', clock_timestamp() from gone
  on conflict (storage_key) do nothing)
select count(*)::int from gone
