-- A photo is published once, and each of its versions is told at most once.
select e.photo as subject, format('%s events %s of version %s', e.n, e.type, e.version) as detail
  from (select type, payload ->> 'photoId' as photo, payload ->> 'entityVersion' as version, count(*) as n
          from outbox_events where type in ('photo.published', 'photo.updated') group by 1, 2, 3) e
 where e.n > 1
