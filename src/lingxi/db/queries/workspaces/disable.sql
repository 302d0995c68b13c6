-- $1 workspace, $2 is it disabled; again is the same
update workspaces set disabled_at = case when $2::boolean then coalesce(disabled_at, clock_timestamp()) end where id = $1
returning id, name, created_at, disabled_at
