-- Its deliveries go with it. $1 workspace, $2 endpoint
delete from webhook_endpoints where workspace_id = $1 and id = $2 returning id
