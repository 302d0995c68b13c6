-- The workspaces that have a cap, with how many items of each run now.
select c.workspace_id, w.name, c.max_running, c.changed_at,
       coalesce((select sum(t.running_items) from media_tasks t where t.workspace_id = c.workspace_id and t.finished_at is null), 0)::int as running
  from workspace_caps c join workspaces w on w.id = c.workspace_id order by w.name
