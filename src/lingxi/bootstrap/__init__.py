"""The composition root: makes the parts from the settings and hands each what it needs. Nothing else knows all of them.

`api.run_api`, `worker.run_worker` and `dispatcher.run_dispatcher` serve until SIGTERM or SIGINT and answer an exit code; a
second signal ends at once. One module a kind of process, so that each imports only what it runs.
"""
