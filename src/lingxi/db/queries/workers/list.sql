-- Worker processes by name; `age_seconds`: since each last told of itself. $1 only this one, by boot or name (null: all)
select boot, name, host, pid, version, queues, running, state, wanted, started_at, seen_at,
       extract(epoch from clock_timestamp() - seen_at)::float8 as age_seconds
  from workers where $1::text is null or boot = $1 or name = $1 order by host, pid, boot
