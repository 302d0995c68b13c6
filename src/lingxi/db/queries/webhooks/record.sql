-- What became of a request. $1 endpoint, $2 event, $3 task and $4 position that made it, $5 milliseconds, $6 status, $7 response, $8 error code
update webhook_deliveries
   set attempts = attempts + 1, last_attempt_at = clock_timestamp(), duration_ms = $5, response_status = $6, response_body = $7, error_code = $8,
       task_id = $3, position = $4, delivered_at = case when $8::text is null then clock_timestamp() end
 where endpoint_id = $1 and event_id = $2
