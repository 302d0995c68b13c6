-- $1 key
select value from deployment where key = $1
