-- $1 key, $2 value: the value that holds from now on, the first one wins. The update changes nothing: it sees what another has
-- inserted meanwhile, which this statement's snapshot does not.
insert into deployment (key, value) values ($1, $2) on conflict (key) do update set value = deployment.value returning value
