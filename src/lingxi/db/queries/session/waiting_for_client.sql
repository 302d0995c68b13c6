-- Sessions of ours that wait for their client in the midst of a statement. `since` is another whenever the session has done something
select pid, state_change as since, application_name,
  application_name not like 'lingxi processor %' or exists (
    select from pg_stat_activity as other where other.wait_event_type = 'Lock' and mine.pid = any (pg_blocking_pids(other.pid))
  ) as in_the_way
  from pg_stat_activity as mine
 where datname = current_database() and usename = current_user and application_name like 'lingxi%'
   and state = 'active' and wait_event_type = 'Client'
