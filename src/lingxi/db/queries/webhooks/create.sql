-- $1 id, $2 workspace, $3 url, $4 events, $5 description, $6 secret, $7 how many a workspace may have; none when it has them already
with one_at_a_time as (select id from workspaces where id = $2 for no key update)
insert into webhook_endpoints (id, workspace_id, url, events, description, secret)
select $1, w.id, $3, $4, $5, $6 from one_at_a_time w
 where (select count(*) from webhook_endpoints where workspace_id = $2) < $7::int
returning *
