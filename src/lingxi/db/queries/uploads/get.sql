-- $1 album, $2 upload: nothing when it has expired.
select * from uploads where album_id = $1 and id = $2 and expires_at > clock_timestamp()
