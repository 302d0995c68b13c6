-- $1 upload, $2 offset, $3 who appends from now on (whoever did before is fenced off), $4 the most parts that one may have
update uploads set writer = $3
 where id = $1 and received_bytes = $2 and photo_id is null and expires_at > clock_timestamp()
   and (select count(*) from upload_parts where upload_id = $1) < $4
returning id
