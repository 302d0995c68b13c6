-- $1 workspace, $2 items more, $3 limit: charged, when they fit by what was counted in the last ten seconds. The row stays locked until
-- the commit, so that submissions of one workspace cannot pass the limit together.
update workspace_quotas set open_bound = open_bound + $2
 where workspace_id = $1 and open_counted_at > clock_timestamp() - interval '10 s' and open_bound + $2 <= $3 returning open_bound
