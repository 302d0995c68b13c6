-- The present secret signs beside the new one for a while; one that did so before is forgotten. $1 workspace, $2 endpoint, $3 secret, $4 seconds
update webhook_endpoints
   set previous_secret = case when $4::float8 > 0 then secret end,
       previous_until = case when $4::float8 > 0 then clock_timestamp() + make_interval(secs => $4) end, secret = $3
 where workspace_id = $1 and id = $2 returning *
