-- $1 storage keys, $2 reason, $3 seconds until they are removed
insert into object_trash (storage_key, reason, remove_at)
select k, $2, clock_timestamp() + make_interval(secs => $3) from unnest($1::text[]) k on conflict (storage_key) do nothing
