-- $1 album: no photo of it is left.
update albums set cleared_at = clock_timestamp() where id = $1
