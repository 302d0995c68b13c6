-- $1 queues: for how many seconds each one's canary has waited for its answer, 0 when it has it; and what is known of the last answer.
select queue, coalesce(extract(epoch from clock_timestamp() - waiting_since), 0)::float8 as age_seconds, answered_at, answered_by,
       round_trip_seconds, extract(epoch from clock_timestamp() - answered_at)::float8 as answered_seconds_ago
  from canaries where queue = any($1::text[]) order by queue
