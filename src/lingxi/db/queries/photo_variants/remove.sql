-- $1 photo: its variants' rows go, their files go to the trash.
delete from photo_variants where photo_id = $1 returning storage_key
