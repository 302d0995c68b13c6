-- $1 upload, $2 photo, $3 was it new
update uploads set photo_id = $2, photo_created = $3, writer = null where id = $1 returning *
