-- $1 name, or the text of an id
select id, name, created_at, disabled_at from workspaces where name = $1 or id::text = $1
