-- A turn that comes once in a while for all processes together. $1 its name, $2 seconds. No row: it is not due, or somebody took it.
insert into deployment (key, value) values ($1, '')
on conflict (key) do update set changed_at = clock_timestamp()
  where deployment.changed_at <= clock_timestamp() - make_interval(secs => $2)
returning key
