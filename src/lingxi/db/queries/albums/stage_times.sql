-- How long the photos of an album took, by stage: milliseconds since the stage before that the photo has a time of, and (`published`,
-- `seen`) from its upload's beginning. $1 album, $2 stages in their order
with passed as (
  select p.id, s.stage, s.place, (p.timeline ->> s.stage)::timestamptz as at
    from photos p cross join unnest($2::text[]) with ordinality s(stage, place)
   where p.album_id = $1 and p.deleted_at is null and p.timeline ? s.stage),
took as (
  select stage, place, at - lag(at) over (partition by id order by place) as span from passed
  union all
  select 'published', 100, max(at) filter (where stage = 'committed') - max(at) filter (where stage = 'received') from passed group by id
  union all
  select 'seen', 101, max(at) filter (where stage = 'firstFrame') - max(at) filter (where stage = 'received') from passed group by id),
milliseconds as (
  select stage, place, greatest(0, extract(epoch from span) * 1000)::float8 as ms from took where span is not null)
select stage, count(*)::int as count, percentile_cont(0.5) within group (order by ms) as p50_ms,
       percentile_cont(0.95) within group (order by ms) as p95_ms, max(ms) as max_ms
  from milliseconds group by stage, place order by place
