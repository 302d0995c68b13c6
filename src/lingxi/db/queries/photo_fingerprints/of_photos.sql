-- $1 photos: by what the best of a group is told.
select f.photo_id, f.width, f.height, f.sharpness, f.thumb_hash, p.size_bytes, p.upload_number
  from photo_fingerprints f join photos p on p.id = f.photo_id where f.photo_id = any($1)
