-- $1 upload: what has arrived, in order.
select * from upload_parts where upload_id = $1 order by offset_bytes
