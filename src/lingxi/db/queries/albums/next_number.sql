-- $1 album: lock it and take the feed's next number; nothing when it is deleted.
update albums set last_seq = last_seq + 1 where id = $1 and deleted_at is null returning last_seq
