-- $1 album: lock it, take the feed's next number and the next upload's number.
update albums set last_seq = last_seq + 1, last_upload = last_upload + 1 where id = $1 and deleted_at is null returning last_seq, last_upload
