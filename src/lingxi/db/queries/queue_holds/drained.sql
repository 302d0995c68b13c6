-- A queue that was draining has nothing left. $1 queue, $2 since when it was held (it may have been resumed and held again)
update queue_holds set state = 'paused' where queue = $1 and state = 'draining' and held_at = $2 returning queue
