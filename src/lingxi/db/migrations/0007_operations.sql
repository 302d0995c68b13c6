-- Steering by hand: pauses, quotas, retention, planned rounds.
select 1;
