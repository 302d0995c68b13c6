-- A photo that had failed is to be processed again. $1 photo, $2 feed number
update photos set processing_state = 'uploaded', error_code = null, last_seq = $2
 where id = $1 and processing_state = 'processing_failed' and deleted_at is null
returning *
