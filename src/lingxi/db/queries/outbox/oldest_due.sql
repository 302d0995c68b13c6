-- For how many seconds the event that is due the longest has been due; 0 when none is. $1 all priorities: one look at the index for each.
select coalesce(greatest(max(case when isfinite(first.due_at) then extract(epoch from clock_timestamp() - first.due_at) end), 0), 0)::float8
  from unnest($1::smallint[]) p(priority),
       lateral (select next_attempt_at as due_at from outbox_events e
                 where e.priority = p.priority and e.published_at is null and e.last_error is distinct from 'dead_lettered'
                 order by e.next_attempt_at limit 1) first
