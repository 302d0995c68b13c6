-- $1 number: true for one transaction at a time
select pg_try_advisory_xact_lock($1)
