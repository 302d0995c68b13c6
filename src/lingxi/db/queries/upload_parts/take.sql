-- $1 upload: forget its parts, and tell where they lie.
delete from upload_parts where upload_id = $1 returning storage_key
