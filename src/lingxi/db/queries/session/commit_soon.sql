-- From now on this transaction waits for nothing but its own statements. $1 how long it may be idle, as PostgreSQL writes it
select set_config('idle_in_transaction_session_timeout', $1, true)
