-- Queues to which nothing is sent.
select queue from queue_holds
