-- $1 workspace (null: all, and what belongs to none), $2 until (or null), $3 and $4 after this time and id, $5 limit
select a.id, a.workspace_id, a.actor, a.verb, a.target, a.request_id, a.at, t.name as actor_name, t.role as actor_role
  from audit_log a left join tokens t on t.id = a.actor
 where ($1::uuid is null or a.workspace_id = $1)
   and ($2::timestamptz is null or a.at < $2)
   and (a.at, a.id) > ($3, $4::bigint)
 order by a.at, a.id limit $5
