-- $1 seconds that a row is kept, $2 at most. Locking rows needs the right to change them, which the application has not: of two at once, one does nothing.
delete from audit_log where id in (
  select id from audit_log where at < clock_timestamp() - make_interval(secs => $1::float8)
     and (select pg_try_advisory_xact_lock(hashtext('lingxi prunes audit_log')))
   order by at limit $2::int)
