-- $1 how many at most: those whose time is over and that nobody holds.
select id from uploads where expires_at <= clock_timestamp() order by expires_at limit $1 for update skip locked
