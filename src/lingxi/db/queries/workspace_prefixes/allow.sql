-- $1 workspace, $2 prefix
insert into workspace_prefixes (workspace_id, prefix) values ($1, $2) on conflict on constraint workspace_prefix_once do nothing
