-- Published events of a live task whose items may be absent from Redis. $1 types, $2 published at least so many seconds ago, $3 limit,
-- $4 events after this id. An item counts as present when the job of any of its published events is there.
select e.id, e.queue, e.task_id, e.first_position, e.last_position, e.positions
  from media_tasks t
  join outbox_events e on e.task_id = t.id and e.type = 'items.queued' and e.round = t.round
 where t.finished_at is null and t.queued_items + t.retrying_items > 0 and t.type = any($1)
   and e.published_at < clock_timestamp() - make_interval(secs => $2) and e.id > $4
 order by e.id limit $3
