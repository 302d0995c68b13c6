-- A success ends a row of failures. $1 endpoint
update webhook_endpoints set failures = 0, failing_since = null where id = $1 and failures > 0
