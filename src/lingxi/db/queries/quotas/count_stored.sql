-- $1 workspace: bytes of its objects (not of media that only lie in the bucket), of its photos as they were uploaded, and of uploads
-- that are under way, by the length that each has told.
select (coalesce((select sum(size_bytes) from objects where workspace_id = $1 and storage_key not like 'media:%'), 0)
      + coalesce((select sum(p.size_bytes) from albums a join photos p on p.album_id = a.id
                   where a.workspace_id = $1 and a.deleted_at is null and p.deleted_at is null), 0)
      + coalesce((select sum(length_bytes) from uploads where workspace_id = $1 and photo_id is null and expires_at > clock_timestamp()), 0)
      + coalesce((select sum(size_bytes) from direct_uploads
                   where workspace_id = $1 and confirmed_at is null and expires_at > clock_timestamp()), 0))::bigint
