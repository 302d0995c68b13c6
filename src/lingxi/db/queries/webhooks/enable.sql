-- Enabled, its failures are forgotten. $1 workspace, $2 endpoint
update webhook_endpoints set enabled = true, disabled_at = null, disabled_reason = null, failures = 0, failing_since = null
 where workspace_id = $1 and id = $2 returning *
