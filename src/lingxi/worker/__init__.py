"""The loops that run items: a supervisor of processes, and in each a consumer for every queue that it serves.

`process.py` is the place to begin, `consumer.py` shows the way of a job. What each part promises:

- consumer, stage     a job is acknowledged only after the commit of what became of its item; an error loses no batch
- claimer, job        only what waits and is due starts; a job that names nothing fails, a newer one goes back
- executor, ward      every attempt ends, whatever its processor does; a suspect runs beside no other suspect
- finisher            one impossible result fails its own item; a commit whose answer was lost is found again
- lease               a thread keeps leases and locks, so a blocked event loop loses nothing
- shutdown, child     first signal: in order, with a grace; second: at once
- supervisor          a dead process is known at once, and replaced
"""
