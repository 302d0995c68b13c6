-- $1 task, $2 name: an object of the workspace that the task belongs to, and of no other
select o.name, o.storage_key, o.size_bytes, o.sha256, o.content_type, o.created_at
from media_tasks t join objects o on o.workspace_id = t.workspace_id
where t.id = $1 and o.name = $2
