-- $1 task ids, $2 positions, $3 fences, $4 lease: answers the attempts that are still owned.
select task_id, pos as position, fence from renew_leases($1, $2, $3, $4)
