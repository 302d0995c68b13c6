-- $1 photo, $2 feed number
update photos set deleted_at = clock_timestamp(), last_seq = $2, entity_version = entity_version + 1 where id = $1 and deleted_at is null returning *
