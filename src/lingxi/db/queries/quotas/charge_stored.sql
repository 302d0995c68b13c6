-- $1 workspace, $2 bytes more, $3 limit: charged, when they fit by what was counted in the last hour. The row stays locked until the commit.
update workspace_quotas set stored_bound = stored_bound + $2
 where workspace_id = $1 and stored_counted_at > clock_timestamp() - interval '1 hour' and stored_bound + $2 <= $3 returning stored_bound
