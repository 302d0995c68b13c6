-- One failure more. $1 endpoint
update webhook_endpoints set failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()) where id = $1
returning enabled, failures, extract(epoch from clock_timestamp() - failing_since)::float8 as failing_seconds
