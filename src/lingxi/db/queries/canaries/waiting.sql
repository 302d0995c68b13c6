-- Canaries that nobody has answered, of any queue.
select queue from canaries where waiting_since is not null order by queue for update
