-- $1 storage keys: those that are in the trash
select storage_key from object_trash where storage_key = any($1)
