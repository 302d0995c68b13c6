-- These deliveries are items of a new task now, in this order. $1 endpoint, $2 events, $3 task
update webhook_deliveries d set task_id = $3, position = u.n::int, delivered_at = null
  from unnest($2::uuid[]) with ordinality u(event_id, n) where d.endpoint_id = $1 and d.event_id = u.event_id
