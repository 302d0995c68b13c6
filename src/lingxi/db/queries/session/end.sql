-- $1 process of the server, $2 since when: ended, unless it has done something since
select pg_terminate_backend(pid) from pg_stat_activity
 where pid = $1 and state_change = $2 and state = 'active' and wait_event_type = 'Client'
