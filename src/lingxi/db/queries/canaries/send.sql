-- $1 queues: the next canary of each. One that follows an unanswered one waits for as long as that.
insert into canaries (queue, waiting_since, sent_at)
select queue, clock_timestamp(), clock_timestamp() from unnest($1::text[]) asked(queue) order by queue
on conflict (queue) do update
   set number = canaries.number + 1, sent_at = clock_timestamp(), waiting_since = coalesce(canaries.waiting_since, clock_timestamp())
returning queue, number
