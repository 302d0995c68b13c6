-- Which of the keys $1 does a row name that still needs the bytes? A deleted or recalled photo does not.
-- Every table with a column that holds a storage key is named here; a test looks.
select storage_key from objects where storage_key = any($1) and storage_key not like 'media:%'
union all select storage_key from photos where storage_key = any($1) and deleted_at is null and visibility <> 'recalled'
union all select storage_key from photo_variants where storage_key = any($1)
union all select storage_key from uploads where storage_key = any($1)
union all select storage_key from upload_parts where storage_key = any($1)
union all select storage_key from direct_uploads where storage_key = any($1)
