-- $1 workspace, $2 endpoint
select * from webhook_endpoints where workspace_id = $1 and id = $2
