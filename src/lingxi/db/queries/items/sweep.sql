-- $1 limit, $2 worker or null: ends attempts whose lease ran out, or (worker given) all of a dead process.
select task_id, pos as position, fence, verdict, state from sweep_leases($1, $2)
