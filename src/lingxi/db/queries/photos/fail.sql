-- The last attempt failed; visibility stays as it was. $1 photo, $2 code, $3 feed number
update photos set processing_state = 'processing_failed', error_code = $2, last_seq = $3
 where id = $1 and processing_state = 'uploaded' and deleted_at is null
returning *
