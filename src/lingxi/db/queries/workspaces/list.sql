select id, name, created_at from workspaces order by created_at, id
