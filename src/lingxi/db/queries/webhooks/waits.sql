-- Is this delivery on its way? None: there is no such delivery. $1 endpoint, $2 event
select exists (select from media_task_items i where i.task_id = d.task_id and i.position = d.position and i.state in ('queued', 'running', 'retrying')) as waits
  from webhook_deliveries d where d.endpoint_id = $1 and d.event_id = $2
   for no key update of d
