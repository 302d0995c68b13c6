-- Worker processes that have not told of themselves for long. $1 seconds, $2 at most
delete from workers where boot in (
  select boot from workers where seen_at < clock_timestamp() - make_interval(secs => $1::float8) limit $2::int for update skip locked)
