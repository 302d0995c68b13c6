-- A worker process tells of itself and hears what is wanted of it (null: to work). $1 boot, $2 name, $3 host, $4 pid, $5 version,
-- $6 queues, $7 how many items and photos it works on, $8 state
insert into workers as w (boot, name, host, pid, version, queues, running, state) values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (boot) do update set running = excluded.running, state = excluded.state, seen_at = clock_timestamp()
returning wanted
