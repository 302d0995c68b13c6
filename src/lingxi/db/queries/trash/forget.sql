-- $1 storage keys
delete from object_trash where storage_key = any($1)
