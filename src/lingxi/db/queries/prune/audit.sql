-- $1 seconds that a row is kept, $2 at most
delete from audit_log where id in (
  select id from audit_log where at < clock_timestamp() - make_interval(secs => $1::float8)
   order by at limit $2::int for update skip locked)
