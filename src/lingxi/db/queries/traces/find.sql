-- $1 what they are about
select subject, traceparent from traces where subject = any($1::uuid[])
