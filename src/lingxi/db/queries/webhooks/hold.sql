-- $1 workspace, $2 endpoint: it stays as it is until the end of this transaction
select * from webhook_endpoints where workspace_id = $1 and id = $2 for no key update
