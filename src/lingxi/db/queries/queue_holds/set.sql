-- $1 queue, $2 state, $3 reason or null. What is paused is drained already: it stays so, since when it was.
insert into queue_holds as h (queue, state, reason) values ($1, $2, $3)
on conflict (queue) do update
   set state = case when h.state = 'paused' then 'paused' else excluded.state end, reason = coalesce(excluded.reason, h.reason),
       held_at = case when h.state = excluded.state or h.state = 'paused' then h.held_at else clock_timestamp() end
returning queue, state, reason, held_at
