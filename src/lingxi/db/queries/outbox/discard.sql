-- $1 id, $2 workspace (null: of any). Answers discarded, not_dead or missing.
select discard_event($1, $2)
