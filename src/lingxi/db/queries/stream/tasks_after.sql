-- $1 task ids, $2 the number up to which each was seen: the tasks that went on, each as it is.
select t.* from unnest($1::uuid[], $2::bigint[]) u(id, seq) join media_tasks t on t.id = u.id where t.last_seq > u.seq
