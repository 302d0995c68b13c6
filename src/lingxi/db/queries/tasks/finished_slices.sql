-- How many items of a task's round ended in each of $3 equal slices of the time since its first began, at most $4 seconds ago.
-- $1 task, $2 round; slices without any are left out
with ended as materialized (
  select started_at, finished_at from media_task_items where task_id = $1 and round = $2 and finished_at is not null and started_at is not null),
bounds as (
  select greatest(min(started_at), clock_timestamp() - make_interval(secs => $4)) as since, clock_timestamp() as now from ended)
select (extract(epoch from b.now - b.since) / $3)::float8 as slice_seconds,
       least($3, 1 + floor(extract(epoch from e.finished_at - b.since) / nullif(extract(epoch from b.now - b.since), 0) * $3))::int as slice,
       count(*)::int as items
  from ended e, bounds b where e.finished_at >= b.since group by b.now, b.since, 2
