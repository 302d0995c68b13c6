-- $1 task ids, $2 positions, $3 fences: these attempts are used up. $4: only those whose lease has run out, now that their tasks are locked.
select f.task_id, f.pos as position, f.fence, f.verdict, f.state
  from (select array[cardinality($1::uuid[])] as size) n,
       finish_items($1, $2, $3, array_fill('lost'::text, n.size), array_fill(null::text, n.size),
         array_fill('worker_lost'::text, n.size), array_fill('The worker that ran this was lost.'::text, n.size),
         array_fill(true, n.size), array_fill(0::float8, n.size), $4) f
