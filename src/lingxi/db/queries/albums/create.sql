-- $1 id, $2 workspace, $3 name, $4 may share links fetch originals
insert into albums (id, workspace_id, name, originals_shared) values ($1, $2, $3, $4) returning *
