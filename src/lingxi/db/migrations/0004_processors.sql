-- Processors of users, fairness between workspaces, workers in other languages.
select 1;
