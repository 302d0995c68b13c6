-- $1 queue
delete from queue_holds where queue = $1 returning queue
