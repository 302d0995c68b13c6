-- $1 seconds that a row is kept, $2 at most
delete from traces where subject in (
  select subject from traces where at < clock_timestamp() - make_interval(secs => $1::float8)
   order by at limit $2::int for update skip locked)
