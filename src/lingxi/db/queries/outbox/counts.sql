-- Two counts, each by its own partial index: a condition on published_at alone has none.
with dead as (select count(*) as n from outbox_events where published_at is null and last_error = 'dead_lettered'),
 due as (select count(*) as n from outbox_events where published_at is null and last_error is distinct from 'dead_lettered')
select due.n + dead.n as pending, dead.n as dead_lettered from due, dead
