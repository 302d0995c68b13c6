-- Deleted albums that may still have photos, the longest deleted first. $1 limit
select id from albums where deleted_at is not null and cleared_at is null order by deleted_at limit $1
