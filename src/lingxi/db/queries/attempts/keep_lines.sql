-- $1 fences of ended attempts, $2 of each its log lines, as a JSON array of texts
update media_task_attempts a set log_lines = given.lines
  from unnest($1::bigint[], $2::jsonb[]) as given (id, lines) where a.id = given.id
