-- Each round that has ended told so once, and no other did. Events are pruned some days after they were published, so for old
-- tasks only a second end is found.
select t.id::text as subject, format('round %s, ended %s: ends told of rounds %s', t.round, t.finished_at is not null, coalesce(e.rounds, '{}')) as detail
  from media_tasks t
  cross join lateral (
    select array_agg(round order by round, id) as rounds, count(*) as ends, count(distinct round) as different, max(round) as last
      from outbox_events where task_id = t.id and type = 'task.ended') e
 where t.id = any($1::uuid[])
   and (e.ends <> e.different or e.last > t.round - case when t.finished_at is null then 1 else 0 end
        or (t.created_at > now() - interval '6 days' and e.different < t.round - case when t.finished_at is null then 1 else 0 end))
