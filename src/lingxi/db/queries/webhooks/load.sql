-- What an item delivers. $1 workspace, $2 endpoint, $3 event
select e.url, e.enabled, e.secret, case when e.previous_until > clock_timestamp() then e.previous_secret end as previous_secret, v.type, v.body
  from webhook_deliveries d join webhook_endpoints e on e.id = d.endpoint_id join webhook_events v on v.id = d.event_id
 where d.endpoint_id = $2 and d.event_id = $3 and e.workspace_id = $1 and v.workspace_id = $1
