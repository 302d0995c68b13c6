-- $1 SHA-256 of the secret, $2 token, $3 seconds that it lives. Links that nobody used in time go on the way.
with gone as (delete from sign_in_links where expires_at < clock_timestamp())
insert into sign_in_links (secret_hash, token_id, expires_at)
values ($1, $2, clock_timestamp() + make_interval(secs => $3::float8)) returning expires_at
