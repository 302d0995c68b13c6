-- $1 key, $2 value
insert into deployment (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value, changed_at = now()
