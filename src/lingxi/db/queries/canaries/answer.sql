-- $1 queue, $2 worker. Which canary it had does not matter: that it took one, and commits, is what was asked. The sender may not have
-- committed yet: so this waits for its row.
insert into canaries (queue, answered_at, answered_by) values ($1, clock_timestamp(), $2)
on conflict (queue) do update
   set waiting_since = null, answered_at = clock_timestamp(), answered_by = excluded.answered_by,
       round_trip_seconds = extract(epoch from clock_timestamp() - canaries.sent_at)
