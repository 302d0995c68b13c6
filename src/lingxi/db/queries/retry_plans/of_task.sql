-- $1 task: what is planned for each cause, the largest first
select code, round, canary_position, rest_items, state, decided_at from retry_plans where task_id = $1 order by rest_items desc, code
