-- $1 key, $2 value: the value that holds from now on, the first one wins.
with given as (insert into deployment (key, value) values ($1, $2) on conflict (key) do nothing returning value)
select value from given union all select value from deployment where key = $1 limit 1
