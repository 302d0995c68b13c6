-- Albums that have moved past a number, each as one audience sees it, with the first of its photos that changed after a point: one
-- statement for any number of albums, so one snapshot for an album and its photos. The index photos_feed finds them in their order.
-- Share links are told of photos that are, or once were, published. Photos are counted only where a snapshot will tell of it.
-- $1 uuid[] albums; $2 bigint[] and $3 int[] the points (number, upload number); $4 int[] most rows of each; $5 boolean[] answer also
-- when nothing changed; $6 boolean[] the same, and count; $7 boolean[] for share links
select a.*, asked.shared, page.found, page.photos, variants.variants,
       asked.counted or a.changed_seq > asked.number as counted, counts.*
  from unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::boolean[], $6::boolean[], $7::boolean[])
       as asked(album_id, number, position, most, always, counted, shared)
  join albums a on a.id = asked.album_id and (a.last_seq > asked.number or asked.always or asked.counted)
  cross join lateral (
    select count(*)::int as found, array_agg((f.p).id) as ids, array_agg(f.p order by (f.p).last_seq, (f.p).upload_number) as photos
      from (select p
              from photos p
             where p.album_id = a.id and (p.last_seq, p.upload_number) > (asked.number, asked.position)
               and (not asked.shared or p.published_at is not null) and a.deleted_at is null
             order by p.last_seq, p.upload_number
             limit asked.most) f) page
  cross join lateral (select array_agg(v) as variants from photo_variants v where v.photo_id = any (page.ids)) variants
  cross join lateral (
    select count(*)::int as photos_counted, (count(*) filter (where c.visibility = 'published'))::int as published_counted,
           (count(*) filter (where c.processing_state = 'processing_failed'))::int as failed_counted,
           (count(*) filter (where c.processing_state = 'uploaded'))::int as processing_counted
      from photos c
     where c.album_id = a.id and c.deleted_at is null and (asked.counted or a.changed_seq > asked.number)) counts
