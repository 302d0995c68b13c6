-- Who wants these events; an endpoint cannot go before what is written for it. $1 workspaces, $2 types: one each an event
select u.ordinality::int - 1 as number, e.id, e.enabled
  from unnest($1::uuid[], $2::text[]) with ordinality u(workspace_id, type, ordinality)
  join webhook_endpoints e on e.workspace_id = u.workspace_id and u.type = any(e.events)
 order by e.id, u.ordinality
   for key share of e
