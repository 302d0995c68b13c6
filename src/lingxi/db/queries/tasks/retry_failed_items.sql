-- $1 workspace, $2 task, $3 items an event, $4 codes or null for all, $5 first one item of each code
select retry_failed_items($1, $2, $3, $4::text[], $5)
