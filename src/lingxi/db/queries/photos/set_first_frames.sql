-- When viewers were first sent these photos; the first time stays. No lock of an album and no number: nothing that anybody sees
-- changes. Photos that somebody works on are left out, so it neither waits nor takes part in a deadlock; answered are the others.
-- $1 photos, $2 times (RFC 3339), in the same order
with free as (
  select p.id, told.at, not p.timeline ? 'firstFrame' as is_first,
         extract(epoch from told.at::timestamptz - (p.timeline ->> 'committed')::timestamptz)::float8 as after_seconds
    from unnest($1::uuid[], $2::text[]) as told(id, at) join photos p on p.id = told.id for no key update of p skip locked
), written as (
  update photos p set timeline = p.timeline || jsonb_build_object('firstFrame', free.at)
    from free where p.id = free.id and not p.timeline ? 'firstFrame'
)
select id, case when is_first then after_seconds end as after_seconds from free
