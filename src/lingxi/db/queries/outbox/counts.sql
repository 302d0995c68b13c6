select count(*) as pending, count(*) filter (where last_error = 'dead_lettered') as dead_lettered
  from outbox_events where published_at is null
