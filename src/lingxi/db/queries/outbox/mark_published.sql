-- $1 ids
update outbox_events set published_at = clock_timestamp(), last_error = null where id = any($1)
