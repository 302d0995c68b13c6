-- $1 boot, $2 what is wanted of it (null: to work). One that is to stop is not asked for anything else any more.
update workers set wanted = $2, wanted_at = clock_timestamp()
 where boot = $1 and wanted is distinct from 'stop' and state <> 'stopping'
returning boot
