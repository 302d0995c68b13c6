-- Tasks that have moved past a number, each with the first of its items that changed after a point: one statement for any number of
-- tasks, so one snapshot for a task and its items. Without an index on last_seq (it would make every hot update non-HOT) it reads
-- the items of a changed task by their primary key and sorts; tasks that have not changed cost one look at their row.
-- $1 uuid[] task ids; $2 bigint[] and $3 int[] the points (number, position); $4 int[] most rows of each; $5 boolean[] answer also
-- when nothing changed; $6 int: bytes of results after which a page ends (it holds at least one row)
select t.*, extract(epoch from clock_timestamp() - t.finished_at)::float8 as ended_seconds, coalesce(page.found, 0) as found, page.positions, page.numbers, page.states, page.refs, page.attempts, page.results,
       page.error_codes, page.error_messages, page.error_retryables
  from unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::boolean[]) as asked(task_id, number, position, most, always)
  join media_tasks t on t.id = asked.task_id and (t.last_seq > asked.number or asked.always)
  left join lateral (
    select max(i.found)::int as found, array_agg(i.position order by i.nth) as positions, array_agg(i.last_seq order by i.nth) as numbers,
           array_agg(i.state order by i.nth) as states, array_agg(i.ref order by i.nth) as refs, array_agg(i.attempt order by i.nth) as attempts,
           array_agg(i.result order by i.nth) as results, array_agg(i.error_code order by i.nth) as error_codes,
           array_agg(i.error_message order by i.nth) as error_messages, array_agg(i.error_retryable order by i.nth) as error_retryables
      from (select r.*, count(*) over () as found, row_number() over (order by r.last_seq, r.position) as nth,
                   sum(coalesce(octet_length(r.result), 0)) over (order by r.last_seq, r.position rows between unbounded preceding and 1 preceding) as bytes_before
              from (select c.position, c.last_seq, c.state, c.ref, c.attempt, c.result::text as result, c.error_code, c.error_message, c.error_retryable
                      from media_task_items c
                     where c.task_id = t.id and (c.last_seq, c.position) > (asked.number, asked.position)
                     order by c.last_seq, c.position
                     limit asked.most) r) i
     where coalesce(i.bytes_before, 0) < $6::int) page on true
