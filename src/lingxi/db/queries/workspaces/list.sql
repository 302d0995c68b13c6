select id, name, created_at, disabled_at from workspaces order by created_at, id
