-- An event is published or a dead letter, not both; and it names its items as often as it says.
select id::text as subject, format('%s: published %s, %s', type, published_at, coalesce(last_error, 'no error')) as detail
  from outbox_events
 where (published_at is not null and last_error = 'dead_lettered')
    or (type = 'items.queued' and item_count <> coalesce(cardinality(positions), last_position::bigint - first_position + 1))
