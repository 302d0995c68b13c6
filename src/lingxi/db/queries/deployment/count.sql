-- $1 key: one more than before, from 1; never the same number twice
insert into deployment (key, value) values ($1, '1')
on conflict (key) do update set value = (deployment.value::bigint + 1)::text, changed_at = clock_timestamp()
returning value::bigint
