-- $1 workspace, $2 from, $3 until (each or null), $4 and $5 time and id of the last one seen (null: from the newest), $6 limit
select a.id, a.workspace_id, a.actor, a.verb, a.target, a.request_id, a.at, t.name as actor_name, t.role as actor_role
  from audit_log a left join tokens t on t.id = a.actor
 where a.workspace_id = $1
   and ($2::timestamptz is null or a.at >= $2)
   and ($3::timestamptz is null or a.at < $3)
   and ($4::timestamptz is null or (a.at, a.id) < ($4, $5::bigint))
 order by a.at desc, a.id desc limit $6
