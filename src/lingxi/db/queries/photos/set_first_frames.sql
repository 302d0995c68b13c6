-- When viewers were first sent these photos. No lock of an album and no number: nothing that anybody sees changes. Photos that
-- somebody works on are left out, so it neither waits nor takes part in a deadlock.
-- $1 photos, $2 times (RFC 3339), in the same order
update photos p
   set timeline = p.timeline || jsonb_build_object('firstFrame', seen.at)
  from (select id, at from unnest($1::uuid[], $2::text[]) as told(id, at)
         where exists (select from photos l where l.id = told.id and not l.timeline ? 'firstFrame' for no key update skip locked)) seen
 where p.id = seen.id
