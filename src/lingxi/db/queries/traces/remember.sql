-- $1 what it is about (a task, a photo), $2 traceparent. What is older than a trace can last is dropped along the way.
with dropped as (
  delete from traces where subject in (
    select subject from traces where at < now() - interval '2 d' order by at limit 20 for update skip locked))
insert into traces (subject, traceparent) values ($1, $2)
on conflict (subject) do update set traceparent = excluded.traceparent, at = now()
