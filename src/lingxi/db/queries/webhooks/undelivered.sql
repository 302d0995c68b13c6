-- What was not delivered and does not wait, oldest first. $1 endpoint, $2 created at or after, $3 limit
select d.event_id from webhook_deliveries d
 where d.endpoint_id = $1 and d.created_at >= $2 and d.delivered_at is null
   and not exists (select from media_task_items i where i.task_id = d.task_id and i.position = d.position and i.state in ('queued', 'running', 'retrying'))
 order by d.created_at, d.event_id limit $3
   for no key update of d
