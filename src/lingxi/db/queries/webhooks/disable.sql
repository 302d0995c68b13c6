-- One that is disabled keeps its reason. $1 workspace, $2 endpoint, $3 reason
update webhook_endpoints
   set enabled = false, disabled_at = coalesce(disabled_at, clock_timestamp()), disabled_reason = coalesce(disabled_reason, $3)
 where workspace_id = $1 and id = $2 returning *
