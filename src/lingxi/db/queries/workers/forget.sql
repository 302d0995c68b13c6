-- $1 boot: it has ended.
delete from workers where boot = $1
