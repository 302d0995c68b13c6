-- $1 token ids: those that may still be used. One statement for all open streams.
select id from tokens where id = any($1) and revoked_at is null and (expires_at is null or expires_at > clock_timestamp())
