-- $1 photo: its pairs.
delete from photo_pairs where first_id = $1 or second_id = $1
