-- A photo that is ready, and neither recalled nor deleted, has one thumb and one browse of its published generation.
select p.id::text as subject, format('generation %s, variants %s', p.published_generation, coalesce(v.found, '{}')) as detail
  from photos p
  cross join lateral (select array_agg(kind || ' ' || generation order by kind) as found from photo_variants where photo_id = p.id) v
 where p.album_id = any($1::uuid[]) and p.processing_state = 'ready' and p.visibility <> 'recalled' and p.deleted_at is null
   and v.found is distinct from array['browse ' || p.published_generation, 'thumb ' || p.published_generation]
