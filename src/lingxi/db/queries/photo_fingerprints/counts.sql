-- $1 album: how many photos it has, and of how many the fingerprint is that of their pictures.
select count(*)::int as photos, count(f.photo_id) filter (where f.generation >= p.published_generation)::int as fingerprinted
  from photos p left join photo_fingerprints f on f.photo_id = p.id
 where p.album_id = $1 and p.deleted_at is null and p.visibility <> 'recalled'
