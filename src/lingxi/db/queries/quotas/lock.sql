-- $1 workspace: its row, made where it has none, locked.
insert into workspace_quotas (workspace_id) values ($1)
on conflict (workspace_id) do update set workspace_id = excluded.workspace_id
