-- $1 photo; its album must be locked before.
select * from photos where id = $1 for no key update
