-- $1 workspace, $2 name; no row: another one has that name.
update workspaces set name = $2 where id = $1 and not exists (select from workspaces o where o.name = $2 and o.id <> $1)
returning id, name, created_at, disabled_at
