-- $1 task ids, $2 positions, $3 fences, $4 outcomes, $5 results, $6 error codes, $7 messages, $8 retryables, $9 delays in seconds
select task_id, pos as position, fence, verdict, state from finish_items($1, $2, $3, $4, $5, $6, $7, $8, $9)
