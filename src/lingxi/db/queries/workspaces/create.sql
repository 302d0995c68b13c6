-- $1 id, $2 name
insert into workspaces (id, name) values ($1, $2) on conflict (name) do nothing returning id, name, created_at, disabled_at
