-- $1 token, $2 workspace (null: any), $3 id and $4 SHA-256 of the one in its place, $5 seconds that the old one goes on to hold. The new
-- one lives as long as the old one was made to. No row: there is none that holds.
with was as materialized (
  select * from tokens where id = $1 and ($2::uuid is null or workspace_id = $2) and revoked_at is null
     and (expires_at is null or expires_at > clock_timestamp()) for update),
old as (
  update tokens t set expires_at = least(was.expires_at, clock_timestamp() + make_interval(secs => $5::float8)) from was where t.id = was.id)
insert into tokens (id, workspace_id, role, name, secret_hash, expires_at)
select $3, workspace_id, role, name, $4, clock_timestamp() + (expires_at - created_at) from was
returning id, workspace_id, role, name, created_at, expires_at, revoked_at
