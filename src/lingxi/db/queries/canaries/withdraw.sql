-- $1 queues: nobody is asked any more.
update canaries set waiting_since = null where queue = any($1::text[])
