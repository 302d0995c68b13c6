-- $1 workspace, $2 endpoint, $3 url, $4 events, $5 description; what is null stays
update webhook_endpoints set url = coalesce($3, url), events = coalesce($4, events), description = coalesce($5, description)
 where workspace_id = $1 and id = $2 returning *
