-- $1 workspace
select * from webhook_endpoints where workspace_id = $1 order by created_at, id
