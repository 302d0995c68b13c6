-- $1 photo
select * from photo_fingerprints where photo_id = $1
