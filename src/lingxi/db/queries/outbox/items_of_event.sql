-- $1 task, $2 first and $3 last position (or null), $4 positions (or null): those that still wait, with the database's time in milliseconds.
select i.position, (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
  from media_task_items i
 where i.task_id = $1 and (i.position between $2 and $3 or i.position = any($4)) and i.state in ('queued', 'retrying')
 order by i.position
