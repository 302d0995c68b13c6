-- It was put again: its age begins anew. $1 workspace, $2 name; no row: it was removed meanwhile.
update objects set kept_from = clock_timestamp() where workspace_id = $1 and name = $2 returning true
